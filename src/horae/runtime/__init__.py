"""The loops that give the verbs a life: worker, reaper, wake-ups. The only asynchronous floor."""
