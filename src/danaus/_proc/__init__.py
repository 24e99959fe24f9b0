"""Processes of a host: the agent, the zygote that forks, capture of output, clean-up."""
