"""AWS behind the ports; the only package that touches an AWS SDK."""
