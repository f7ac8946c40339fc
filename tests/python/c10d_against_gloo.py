"""Every operation on the backends colla and gloo, with the same tensors; run by each rank.

Prints what differs, and how much was compared.
"""

import itertools

import torch
import torch.distributed as dist

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int8, torch.int32, torch.int64, torch.uint8]
COMPLEX = [torch.complex64, torch.complex128]
DTYPES = [*FLOATS, *INTEGERS, torch.bool, *COMPLEX]
OPS = ["SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"]
SHAPES = [(), (1,), (0,), (3, 5), (2, 0, 4), (70_001,)]


def make(dtype, shape, seed):
    """Small whole numbers: every order of adding them gives the same bits."""
    numbers = torch.randint(0, 4, shape, generator=torch.Generator().manual_seed(seed))
    if dtype.is_complex:
        return torch.complex(numbers.double(), 2 * numbers.double()).to(dtype)
    return (numbers > 1) if dtype == torch.bool else numbers.to(dtype)


class Comparison:
    def __init__(self, groups):
        self.groups = groups
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self.count = 0
        self.differences = []

    def check(self, name, operation, alike=torch.equal):
        """`operation(group)` gives tensors; an error counts as a result too."""
        results = {}
        for backend, group in self.groups.items():
            try:
                results[backend] = [tensor.clone() for tensor in operation(group)]
            except (RuntimeError, ValueError) as error:
                results[backend] = type(error).__name__
        self.count += 1
        ours, theirs = results["colla"], results["gloo"]
        if isinstance(ours, str) or isinstance(theirs, str):
            same = ours == theirs
        else:
            same = len(ours) == len(theirs) and all(a.dtype == b.dtype for a, b in zip(ours, theirs))
            same = same and all(alike(a, b) for a, b in zip(ours, theirs))
        if not same:
            self.differences.append(f"{name}: colla {ours}, gloo {theirs}")

    def reductions(self):
        for dtype, op, shape in itertools.product(DTYPES, OPS, SHAPES[:4]):
            reduction = getattr(dist.ReduceOp, op)
            if op == "AVG" and dtype in INTEGERS:
                continue  # Gloo refuses what Colla divides.

            def all_reduce(group):
                tensor = make(dtype, shape, self.rank)
                dist.all_reduce(tensor, op=reduction, group=group)
                return [tensor]

            def reduce(group):
                tensor = make(dtype, shape, self.rank)
                dist.reduce(tensor, 1, op=reduction, group=group)
                return [tensor] if self.rank == 1 else []

            # Gloo multiplies by a third where Colla divides by three.
            alike = torch.allclose if op == "AVG" else torch.equal
            self.check(f"all_reduce {dtype} {op} {shape}", all_reduce, alike)
            self.check(f"reduce {dtype} {op} {shape}", reduce, alike)
        for dtype, shape in itertools.product([torch.float32, torch.int64], [(3,), (0,), (2, 4), (9_000,)]):

            def reduce_scatter_single(group):
                output = torch.empty(shape, dtype=dtype)
                given = make(dtype, (self.size * shape[0], *shape[1:]), self.rank)
                dist.reduce_scatter_tensor(output, given, group=group)
                return [output]

            def reduce_scatter(group):
                output = torch.empty(shape, dtype=dtype)
                dist.reduce_scatter(
                    output, [make(dtype, shape, 10 * self.rank + i) for i in range(self.size)], group=group
                )
                return [output]

            self.check(f"reduce_scatter_tensor {dtype} {shape}", reduce_scatter_single)
            self.check(f"reduce_scatter {dtype} {shape}", reduce_scatter)

        def all_reduce_coalesced(group):
            tensors = [make(torch.float32, shape, self.rank + i) for i, shape in enumerate(SHAPES)]
            dist.all_reduce_coalesced(tensors, group=group)
            return tensors

        def sparse(group):
            indices = torch.tensor([[self.rank, 4, 2, self.rank]])
            tensor = torch.sparse_coo_tensor(indices, make(torch.float32, (4, 3), self.rank), (7, 3))
            dist.all_reduce(tensor, group=group)
            return [tensor.to_dense()]

        def sparse_empty(group):
            entries = 0 if self.rank == 0 else self.rank
            indices = torch.arange(entries).repeat(2, 1)
            tensor = torch.sparse_coo_tensor(indices, make(torch.float64, (entries,), self.rank), (5, 6))
            dist.all_reduce(tensor, group=group)
            return [tensor.to_dense()]

        self.check("all_reduce_coalesced", all_reduce_coalesced)
        self.check("sparse all_reduce", sparse)
        self.check("sparse all_reduce without entries", sparse_empty)

    def moves(self):
        for dtype, shape in itertools.product(DTYPES, SHAPES):

            def tensor(seed=0):
                return make(dtype, shape, self.rank + 7 * seed)

            def empties(count=self.size):
                return [torch.zeros(shape, dtype=dtype) for _ in range(count)]

            def broadcast(group):
                data = tensor()
                dist.broadcast(data, 2, group=group)
                return [data]

            def all_gather(group):
                results = empties()
                dist.all_gather(results, tensor(), group=group)
                return results

            def gather(group):
                results = empties() if self.rank == 1 else None
                dist.gather(tensor(), results, dst=1, group=group)
                return results or []

            def scatter(group):
                (result,) = empties(1)
                given = [tensor(i) for i in range(self.size)] if self.rank == 0 else None
                dist.scatter(result, given, src=0, group=group)
                return [result]

            # Gloo gathers no complex numbers.
            for operation in (broadcast, all_gather, scatter, *(() if dtype.is_complex else (gather,))):
                self.check(f"{operation.__name__} {dtype} {shape}", operation)
        for dtype in (torch.float32, torch.bool, torch.int64):

            def all_gather_into(group):
                result = torch.zeros(self.size * 5, 3, dtype=dtype)
                dist.all_gather_into_tensor(result, make(dtype, (5, 3), self.rank), group=group)
                return [result]

            def all_gather_coalesced(group):
                given = [make(dtype, (2, 2), self.rank), make(dtype, (3,), self.rank)]
                results = [[torch.zeros_like(t) for t in given] for _ in range(self.size)]
                dist.all_gather_coalesced(results, given, group=group)
                return list(itertools.chain(*results))

            def all_to_all_single(group):
                result = torch.zeros(self.size * 2, 3, dtype=dtype)
                dist.all_to_all_single(result, make(dtype, (self.size * 2, 3), self.rank), group=group)
                return [result]

            def all_to_all_uneven(group):
                # Rank r sends (r + p) % 3 rows to rank p.
                splits = [(self.rank + peer) % 3 for peer in range(self.size)]
                result = torch.zeros(sum(splits), 2, dtype=dtype)
                given = make(dtype, (sum(splits), 2), self.rank)
                dist.all_to_all_single(result, given, splits, splits, group=group)
                return [result]

            for operation in (all_gather_into, all_gather_coalesced, all_to_all_single, all_to_all_uneven):
                self.check(f"{operation.__name__} {dtype}", operation)

    def objects(self):
        def gather_objects(group):
            results = [None] * self.size
            dist.all_gather_object(results, {"rank": self.rank, "text": "x" * self.rank}, group=group)
            return [torch.tensor([item["rank"], len(item["text"])]) for item in results]

        def broadcast_objects(group):
            objects = [self.rank, "from " + str(self.rank)]
            dist.broadcast_object_list(objects, 1, group=group)
            return [torch.tensor([objects[0], len(objects[1])])]

        self.check("all_gather_object", gather_objects)
        self.check("broadcast_object_list", broadcast_objects)

    def messages(self):
        to, source = (self.rank + 1) % self.size, (self.rank - 1) % self.size

        def ring(group):
            results = []
            for dtype, shape in itertools.product(DTYPES, SHAPES):
                result = torch.zeros(shape, dtype=dtype)
                request = dist.isend(make(dtype, shape, self.rank), to, group=group)
                dist.recv(result, source, group=group)
                request.wait()
                results.append(result)
            return results

        def tags_out_of_order(group):
            sends = [dist.isend(torch.full((n,), float(n)), to, group=group, tag=n) for n in (1, 2, 50_000)]
            results = [torch.zeros(n) for n in (50_000, 2, 1)]
            for result in results:
                dist.recv(result, source, group=group, tag=len(result))
            for send in sends:
                send.wait()
            return results

        def same_tag_in_order(group):
            sends = [dist.isend(torch.full((size,), float(size)), to, group=group) for size in (5, 90_000, 7)]
            results = [torch.zeros(size) for size in (5, 90_000, 7)]
            requests = [dist.irecv(result, source, group=group) for result in results]
            for request in reversed([*sends, *requests]):
                request.wait()
            return results

        def from_anybody(group):
            if self.rank != 0:
                dist.send(torch.full((3,), float(self.rank)), 0, group=group, tag=4)
                return []
            seen = {}
            for _ in range(self.size - 1):
                result = torch.zeros(3)
                seen[dist.recv(result, None, group=group, tag=4)] = result
            return [seen[rank] for rank in sorted(seen)]

        def batch(group):
            results = [torch.zeros(4), torch.zeros(100_000)]
            operations = [
                *(dist.P2POp(dist.irecv, result, source, group=group) for result in results),
                *(dist.P2POp(dist.isend, torch.full_like(r, 1.0 + self.rank), to, group=group) for r in results),
            ]
            for request in dist.batch_isend_irecv(operations):
                request.wait()
            return results

        def around_collectives(group):
            # A message that is asked for before, and sent after, a collective.
            result = torch.zeros(80_000)
            request = dist.irecv(result, source, group=group, tag=9)
            dist.barrier(group=group)
            total = torch.ones(10)
            dist.all_reduce(total, group=group)
            dist.send(torch.full((80_000,), float(self.rank)), to, group=group, tag=9)
            request.wait()
            return [result, total]

        for operation in (ring, tags_out_of_order, same_tag_in_order, from_anybody, batch, around_collectives):
            self.check(operation.__name__, operation)

    def asynchronous(self):
        def many(group):
            tensors = [make(torch.float32, (n,), self.rank) for n in (1, 1000, 0, 70_000)]
            works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]
            total = torch.ones(1)
            dist.all_reduce(total, group=group)  # Behind those, though it blocks.
            for work in works:
                work.wait()
                assert work.is_completed() and work.is_success()
            return [*tensors, total]

        def chained(group):
            tensor = make(torch.float32, (10,), self.rank)
            future = dist.all_reduce(tensor, group=group, async_op=True).get_future()
            doubled = future.then(lambda done: done.value()[0] * 2).then(lambda done: done.value() + 1)
            return [doubled.wait(), *future.wait()]

        def results(group):
            given = make(torch.float32, (4,), self.rank)
            outputs = [torch.zeros(4) for _ in range(self.size)]
            work = dist.all_gather(outputs, given, group=group, async_op=True)
            work.wait()
            return [*work.result(), *work.get_future().wait()]

        for operation in (many, chained, results):
            self.check(operation.__name__, operation)

    def refusals(self):
        """What all ranks do wrong alike is refused with the same type of error, and harms nothing."""
        wrong = {
            "root": lambda group: group.broadcast(torch.ones(1), -1),
            "no tensors": lambda group: group.allreduce([]),
            "types": lambda group: group.allreduce([torch.ones(1), torch.ones(1).double()]),
            "sizes": lambda group: group.allreduce([torch.ones(1), torch.ones(2)]),
            "premul": lambda group: dist.all_reduce(torch.ones(1), op=dist._make_nccl_premul_sum(2.0), group=group),
            "list": lambda group: dist.all_gather([torch.ones(1)], torch.ones(1), group=group),
            "splits": lambda group: dist.all_to_all_single(torch.ones(4), torch.ones(4), [9, 9, 9], None, group=group),
            "sizes of a list": lambda group: dist.all_to_all(
                [torch.ones(2)] * self.size, [torch.ones(3)] * self.size, group=group
            ),
            "shapes of a list": lambda group: dist.all_to_all(
                [torch.ones(2, 2)] * self.size, [torch.ones(4)] * self.size, group=group
            ),
            "one shape of a list": lambda group: dist.all_to_all(
                [torch.ones(4)] * self.size, [torch.ones(4)] * (self.size - 1) + [torch.ones(2, 2)], group=group
            ),
            "sizes of an exchange": lambda group: dist.all_to_all_single(
                torch.ones(self.size), torch.ones(2 * self.size), group=group
            ),
            "tag": lambda group: dist.send(torch.ones(1), (self.rank + 1) % self.size, group=group, tag=-1),
        }
        for name, operation in wrong.items():
            self.check(f"refusal of {name}", lambda group, call=operation: call(group) and [])
        self.check("after refusals", lambda group: [dist.barrier(group=group)] and [torch.ones(1)])


def run():
    comparison = Comparison({"gloo": dist.group.WORLD, "colla": dist.new_group(backend="colla")})
    comparison.reductions()
    comparison.moves()
    comparison.objects()
    comparison.messages()
    comparison.asynchronous()
    comparison.refusals()
    for difference in comparison.differences:
        print("DIFFERENT", difference, flush=True)
    print("compared", comparison.count, flush=True)
