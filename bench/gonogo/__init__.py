"""Five tests whether this machine is fit for the job, each with a kill signal that was set before it was measured."""
