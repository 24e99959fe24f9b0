"""Jobs on this machine; the same names as in `danaus.job`."""

from danaus._job.process import ProcessJob

__all__ = ["ProcessJob"]
