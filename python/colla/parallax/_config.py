"""What programs tell Parallax about a run, and which of it means something here."""

from collections.abc import Sequence
from typing import Any


class PSConfig:
    """Of servers. They are Colla's: its transport and its way to cut variables leave nothing to choose here."""

    def __init__(
        self,
        protocol: str = "grpc",
        replicate_variables: bool = True,
        local_aggregation: bool = True,
        boundary_among_servers: bool = True,
        boundary_between_workers_and_servers: bool = True,
    ) -> None:
        self.protocol = protocol
        self.replicate_variables = replicate_variables
        self.local_aggregation = local_aggregation
        self.boundary_among_servers = boundary_among_servers
        self.boundary_between_workers_and_servers = boundary_between_workers_and_servers


class MPIConfig:
    """Of collectives. They are Colla's: there is no mpirun to give options to."""

    def __init__(self, use_allgatherv: bool = False, mpirun_options: str | Sequence[str] = "") -> None:
        self.use_allgatherv = use_allgatherv
        self.mpirun_options = mpirun_options if isinstance(mpirun_options, str) else " ".join(map(str, mpirun_options))


class CommunicationConfig:
    """Of both."""

    def __init__(self, ps_config: PSConfig | None = None, mpi_config: MPIConfig | None = None) -> None:
        self.ps_config = ps_config or PSConfig()
        self.mpi_config = mpi_config or MPIConfig()


class CheckPointConfig:
    """Where worker 0 writes TensorFlow's checkpoints, from which the next run goes on, and after how many steps or
    seconds."""

    def __init__(
        self, ckpt_dir: str | None = None, save_ckpt_steps: int | None = None, save_ckpt_secs: float | None = None
    ) -> None:
        self.ckpt_dir = ckpt_dir
        self.save_ckpt_steps = save_ckpt_steps
        self.save_ckpt_secs = save_ckpt_secs


class ProfileConfig:
    """Which calls of ``session.run()``, counted from 0, are traced: those of `profile_steps`, or from the first number of
    `profile_range` to before the second. Worker `profile_worker` writes TensorFlow's RunMetadata to `profile_dir`."""

    def __init__(
        self,
        profile_dir: str | None = None,
        profile_steps: Sequence[int] | None = None,
        profile_range: tuple[int, int] | None = None,
        profile_worker: int | None = None,
    ) -> None:
        self.profile_dir = profile_dir
        self.profile_steps = profile_steps
        self.profile_range = profile_range
        self.profile_worker = profile_worker


class Config:
    """A run.

    Args:
        run_option: ``HYBRID``: gradients of rows (``tf.IndexedSlices``) go to servers, others are reduced among workers;
            ``MPI``: all are reduced; ``PS``: all go to servers.
        average_sparse: Gradients of rows are averaged over workers, as others are; otherwise they are added up.
        sess_config: A ``tf.compat.v1.ConfigProto``.
        redirect_path: A folder to which each worker's output is written, too.
        search_partitions: There for Parallax' sake: see ``get_partitioner()``.
        communication_config, ckpt_config, profile_config: As their classes say.
    """

    def __init__(
        self,
        run_option: str = "HYBRID",
        average_sparse: bool = False,
        sess_config: Any = None,
        redirect_path: str | None = None,
        search_partitions: bool = False,
        communication_config: CommunicationConfig | None = None,
        ckpt_config: CheckPointConfig | None = None,
        profile_config: ProfileConfig | None = None,
    ) -> None:
        self.run_option = run_option
        self.average_sparse = average_sparse
        self.sess_config = sess_config
        self.redirect_path = redirect_path
        self.search_partitions = search_partitions
        self.communication_config = communication_config or CommunicationConfig()
        self.ckpt_config = ckpt_config or CheckPointConfig()
        self.profile_config = profile_config or ProfileConfig()

    def get_ckpt_config(self) -> CheckPointConfig:
        """Where checkpoints go."""
        return self.ckpt_config
