"""The settings of the alarms: thresholds, severities, and times in which they are mute."""
