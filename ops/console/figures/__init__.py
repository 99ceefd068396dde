"""The pages' drawings, and the past that they draw.

charts    curves, and the attempts of a failing job on a line of time
failures  failed attempts of late, as workers count them
past      the last hour, as CloudWatch has it
samples   what this console has read since its start
"""
