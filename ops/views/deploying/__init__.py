"""Output of the commands that look at a deployment, or try one."""
