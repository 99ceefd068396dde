"""Access: who may look, and who may act.

rules           anybody on this machine, or whoever has a token
load_balancer   whoever an Application Load Balancer has signed in
"""
