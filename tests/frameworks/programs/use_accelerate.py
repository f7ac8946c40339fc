"""accelerate: the program makes the group before the Accelerator, which then takes it as it is."""

import net
import torch
import torch.distributed as dist
from accelerate import Accelerator

dist.init_process_group(net.BACKEND)
accelerator = Accelerator(cpu=True)
model = net.make_model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(net.make_data(), batch_size=8)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for images, labels in loader:
    optimizer.zero_grad()
    accelerator.backward(net.loss_of(model, images, labels))
    optimizer.step()
seen = accelerator.gather(torch.tensor([accelerator.process_index]))
assert accelerator.num_processes == 2 and seen.tolist() == [0, 1], seen
net.keep(accelerator.unwrap_model(model), dist.get_rank(), dist.get_backend())
dist.destroy_process_group()
