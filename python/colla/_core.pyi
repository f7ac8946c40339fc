import datetime

import torch.distributed as dist

version: str
torch_version: str

def create_process_group(
    store: dist.Store, rank: int, size: int, timeout: datetime.timedelta
) -> dist.distributed_c10d.Backend: ...
def leave_process_group(
    group: dist.distributed_c10d.Backend, grace: datetime.timedelta
) -> None: ...
