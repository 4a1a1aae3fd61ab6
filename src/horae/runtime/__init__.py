"""The loops of a process: worker, scheduler, chores, lanes. The only floor with asyncio beside the service."""
