"""Horovod's questions about what it was built with: Colla has a transport of its own, and works on CPUs."""


def mpi_built() -> bool:
    """False: Colla has a transport of its own."""
    return False


def mpi_enabled() -> bool:
    """False: Colla has a transport of its own."""
    return False


def mpi_threads_supported() -> bool:
    """Raises ValueError: there is no MPI to ask about."""
    raise ValueError("Colla does not use MPI: programs may use it beside Colla as they like")


def gloo_built() -> bool:
    """False: Colla has a transport of its own."""
    return False


def gloo_enabled() -> bool:
    """False: Colla has a transport of its own."""
    return False


def nccl_built() -> int:
    """0: there is no version of NCCL."""
    return 0


def ddl_built() -> bool:
    """False."""
    return False


def ccl_built() -> bool:
    """False."""
    return False


def cuda_built() -> bool:
    """False: tensors in this machine's memory only."""
    return False


def rocm_built() -> bool:
    """False: tensors in this machine's memory only."""
    return False
