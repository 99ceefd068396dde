"""Worker groups as services on ECS Fargate."""
