"""Answers to homework 12."""

import copy

import numpy as np
import torch


def with_nbytes(model):
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    rest = sum(p.nbytes for p in model.parameters() if not p.requires_grad)
    return 4 * trained + rest + sum(b.nbytes for b in model.buffers())


def by_address(model):
    seen, total = set(), 0
    for module in model.modules():
        for tensor in [*module._parameters.values(), *module._buffers.values()]:
            if tensor is not None and id(tensor) not in seen:
                seen.add(id(tensor))
                total += tensor.numel() * tensor.element_size() * (4 if tensor.requires_grad else 1)
    return total


def by_measuring(model):
    model = copy.deepcopy(model)
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad])
    for p in model.parameters():
        if p.requires_grad:
            p.grad = torch.ones_like(p)
    optimizer.step()
    total = sum(p.nbytes + (p.grad.nbytes if p.grad is not None else 0) for p in model.parameters())
    moments = [s[k] for s in optimizer.state.values() for k in ("exp_avg", "exp_avg_sq")]
    return total + sum(m.nbytes for m in moments) + sum(b.nbytes for b in model.buffers())


def with_types(model):
    size = {torch.float64: 8, torch.float32: 4, torch.float16: 2, torch.bfloat16: 2, torch.int64: 8}
    total = 0
    for p in set(model.parameters()):
        total += size[p.dtype] * p.numel()
        if p.requires_grad:
            total += 3 * size[p.dtype] * p.numel()
    for b in model.buffers():
        total += size[b.dtype] * b.numel()
    return float(total)


def with_numpy_sizes(model):
    return int(
        np.sum(
            [
                np.prod(p.shape) * p.element_size() * (1 + 3 * p.requires_grad)
                for p in model.parameters()
            ]
        )
        + np.sum([np.prod(b.shape) * b.element_size() for b in model.buffers()])
    )


def as_a_matrix(vectors, exchange):
    r, n = len(vectors), len(vectors[0])
    w = -(-n // r)
    table = torch.zeros(r, r, w, dtype=vectors[0].dtype)
    for i, v in enumerate(vectors):
        table[i].view(-1)[:n] = v
    ranks = torch.arange(r)
    for half in (0, 1):
        for step in range(r - 1):
            got = torch.stack(exchange(list(table[ranks, (ranks - step + half) % r])))
            at = (ranks - step - 1 + half) % r
            table[ranks, at] = got if half else table[ranks, at] + got
    return [row.reshape(-1)[:n] for row in table]


def other_direction_of_pieces(vectors, exchange):
    r, n = len(vectors), vectors[0].numel()
    width = (n + r - 1) // r
    own = [
        [
            torch.nn.functional.pad(v, (0, width * r - n))[k * width : (k + 1) * width]
            for k in range(r)
        ]
        for v in vectors
    ]
    moving = [own[i][(i - 1) % r] for i in range(r)]
    places = [(i - 1) % r for i in range(r)]
    for _ in range(r - 1):
        moving = exchange(moving)
        places = [places[i - 1] for i in range(r)]
        moving = [m + own[i][places[i]] for i, m in enumerate(moving)]
    done = [{places[i]: moving[i]} for i in range(r)]
    for _ in range(r - 1):
        moving = exchange(moving)
        places = [places[i - 1] for i in range(r)]
        for i in range(r):
            done[i][places[i]] = moving[i]
    return [torch.cat([d[k] for k in range(r)])[:n] for d in done]


def with_accumulate(vectors, exchange):
    r, n = len(vectors), len(vectors[0])
    parts = [
        list(torch.split(torch.cat([v, v.new_zeros(-n % r)]), max((n + r - 1) // r, 1)))
        for v in vectors
    ]
    for s in range(2 * (r - 1)):
        out = [parts[i][(i - s) % r] for i in range(r)]
        for i, message in enumerate(exchange(out)):
            k = (i - 1 - s) % r
            parts[i][k] = parts[i][k] + message if s < r - 1 else message
    return [torch.cat(p)[:n] for p in parts]


def as_a_tuple(vectors, exchange):
    return tuple(with_accumulate([v.clone() for v in vectors], exchange))


def longest_first(lengths, cost, capacity):
    order = sorted(range(len(lengths)), key=lambda i: lengths[i].max().item(), reverse=True)
    batches = []
    for i in order:
        s, t = map(int, lengths[i])
        if cost(1, s, t) > capacity:
            raise ValueError(f"{i} is too long")
        if batches:
            last = [*batches[-1], i]
            widest = lengths[last].amax(0).tolist()
            if cost(len(last), *widest) <= capacity:
                batches[-1] = last
                continue
        batches.append([i])
    return batches


def by_cost_alone(lengths, cost, capacity):
    alone = [cost(1, int(s), int(t)) for s, t in lengths]
    for number, needed in enumerate(alone):
        if needed > capacity:
            raise ValueError(f"sentence number {number} needs {needed} of {capacity}")
    made, current = [], []
    for i in np.argsort(alone, kind="stable"):
        longer = lengths[[*current, int(i)]].max(0).values
        if current and cost(len(current) + 1, int(longer[0]), int(longer[1])) > capacity:
            made.append(current)
            current = []
        current.append(int(i))
    if current:
        made.append(current)
    return made


def by_bisection(lengths, cost, capacity):
    rows = lengths.tolist()
    for i, (s, t) in enumerate(rows):
        if cost(1, s, t) > capacity:
            raise ValueError(f"sentence {i}")
    order, out = sorted(range(len(rows)), key=lambda i: (rows[i][1], rows[i][0])), []

    def fits(part):
        return (
            cost(len(part), max(rows[i][0] for i in part), max(rows[i][1] for i in part))
            <= capacity
        )

    while order:
        low, high = 1, len(order)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(order[:middle]) else (low, middle - 1)
        out.append(order[:low])
        order = order[low:]
    return out


RIGHT = {
    "12.1": [with_nbytes, by_address, by_measuring, with_types, with_numpy_sizes],
    "12.2": [as_a_matrix, other_direction_of_pieces, with_accumulate, as_a_tuple],
    "12.3": [longest_first, by_cost_alone, by_bisection],
    "12.4": ["C", "c"],
}


def with_roll(vectors, exchange):
    devices, size = len(vectors), len(vectors[0])
    table = torch.stack(vectors)
    table = torch.nn.functional.pad(table, (0, -size % devices)).reshape(devices, devices, -1)
    rows = torch.arange(devices)
    for step in range(2 * (devices - 1)):
        late = step >= devices - 1
        send = (
            (rows - step + late) % devices
            if not late
            else (rows + 1 - (step - devices + 1)) % devices
        )
        got = torch.stack(list(exchange(list(table[rows, send]))))
        take = (send - 1) % devices
        table[rows, take] = got if late else table[rows, take] + got
    return list(table.flatten(1)[:, :size])


def lists_of_pieces(vectors, exchange):
    return [result.clone() for result in with_accumulate(tuple(vectors), exchange)]


RIGHT["12.2"] += [with_roll, lists_of_pieces]


def in_order(key):
    def by_a_key(lengths, cost, capacity):
        rows, alone = lengths.tolist(), [cost(1, *pair) for pair in lengths.tolist()]
        if max(alone) > capacity:
            raise ValueError(f"sentence {alone.index(max(alone))}")
        order = torch.tensor(sorted(range(len(rows)), key=lambda i: key(rows[i])))
        batches = [order[:0]]
        for i in order:
            wider = torch.cat([batches[-1], i[None]])
            if cost(len(wider), *lengths[wider].amax(0).tolist()) > capacity:
                batches.append(i[None])
            else:
                batches[-1] = wider
        return [batch.tolist() for batch in batches]

    return by_a_key


SOUND = [in_order(tuple), in_order(lambda pair: pair[::-1]), in_order(lambda pair: pair[0])]
RIGHT["12.3"] += SOUND
