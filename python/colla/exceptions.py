"""What ``colla.torch`` raises beyond Python's own exceptions; the names are Horovod's."""


class HorovodInternalError(RuntimeError):
    """A collective failed: a rank was lost, ranks brought what does not fit together, or the job is
    over.

    ``colla.torch.elastic.run`` takes it as a reason to start again from the last commit.
    """


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts have joined or are about to leave: ``colla.torch.elastic.run`` starts again."""

    def __init__(self, skip_sync: bool) -> None:
        super().__init__("the hosts of the job have changed")
        # State need not be brought to everybody again: nobody new has come.
        self.skip_sync = skip_sync
