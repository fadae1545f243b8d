"""Answers to homework 09."""

import io
import math
import os
import pickle
from pathlib import Path

import torch
from torch import nn


class WithAList:
    def __init__(self, patience):
        self.patience, self.losses, self.best = patience, [], None

    def update(self, loss):
        self.losses.append(loss)
        real = [(x, i) for i, x in enumerate(self.losses) if not math.isnan(x)]
        self.best = min(real)[1] if real else None
        since = len(self.losses) - (self.best + 1 if real else 0)
        return since >= self.patience


class WithACounter:
    def __init__(self, patience):
        self.patience, self.bad, self.lowest, self.best, self.count = patience, 0, None, None, -1

    def update(self, loss):
        self.count += 1
        if loss == loss and (self.lowest is None or loss < self.lowest):
            self.lowest, self.best, self.bad = loss, self.count, 0
            return False
        self.bad += 1
        return self.bad >= self.patience


class WithAProperty:
    def __init__(self, patience):
        self.patience, self.history = patience, []

    @property
    def best(self):
        finite = [x for x in self.history if x == x]
        return self.history.index(min(finite)) if finite else None

    def update(self, loss):
        self.history.append(float(loss))
        if len(self.history) <= self.patience and self.best is not None:
            return len(self.history) - 1 - self.best >= self.patience
        best = -1 if self.best is None else self.best
        return len(self.history) - 1 - best >= self.patience


class WithTensors:
    def __init__(self, patience):
        self.patience, self.best, self.n = patience, None, 0
        self.low = torch.tensor(torch.inf, dtype=torch.float64)

    def update(self, loss):
        if torch.tensor(loss, dtype=torch.float64) < self.low:
            self.low, self.best = torch.tensor(loss, dtype=torch.float64), self.n
        self.n += 1
        return torch.tensor(self.n - (0 if self.best is None else self.best + 1) >= self.patience)


class Inherits(WithACounter):
    pass


def with_torchs_clipping(model, optimizer, batches, loss_sum, max_norm):
    optimizer.zero_grad()
    count = 0
    for batch in batches:
        loss, n = loss_sum(model, batch)
        loss.backward()
        count += n
    for p in model.parameters():
        if p.grad is not None:
            p.grad /= count
    norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return norm.item()


def all_at_once(model, optimizer, batches, loss_sum, max_norm):
    for p in model.parameters():
        p.grad = None
    losses, counts = zip(*(loss_sum(model, b) for b in batches), strict=True)
    (sum(losses) / sum(counts)).backward()
    norm = nn.utils.get_total_norm([p.grad for p in model.parameters() if p.grad is not None])
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    model.zero_grad()
    return float(norm)


def with_autograd_grad(model, optimizer, batches, loss_sum, max_norm):
    parameters = list(model.parameters())
    sums, count = [torch.zeros_like(p) for p in parameters], 0
    for batch in batches:
        loss, n = loss_sum(model, batch)
        count += n
        for total, g in zip(
            sums, torch.autograd.grad(loss, parameters, allow_unused=True), strict=True
        ):
            if g is not None:
                total += g
    flat = torch.cat([g.flatten() for g in sums]) / count
    norm = float(flat.norm())
    for p, g in zip(parameters, sums, strict=True):
        p.grad = g / count * min(1.0, max_norm / max(norm, 1e-12)) if g.any() else None
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    return norm


def scaled_losses(model, optimizer, batches, loss_sum, max_norm):
    optimizer.zero_grad()
    with torch.no_grad():
        count = sum(loss_sum(model, b)[1] for b in batches)
    for b in batches:
        (loss_sum(model, b)[0] / count).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    optimizer.step()
    optimizer.zero_grad()
    return float(norm)


class WithBytes:
    @staticmethod
    def save(path, model, optimizer, step):
        buffer = io.BytesIO()
        torch.save(
            [model.state_dict(), optimizer.state_dict(), torch.random.get_rng_state(), step], buffer
        )
        temporary = f"{path}.tmp"
        with open(temporary, "wb") as file:
            file.write(buffer.getvalue())
        os.replace(temporary, path)

    @staticmethod
    def load(path, model, optimizer):
        weights, moments, random, step = torch.load(path, weights_only=False)
        model.load_state_dict(weights)
        optimizer.load_state_dict(moments)
        torch.random.set_rng_state(random)
        return step


class WithPickle:
    @staticmethod
    def save(path, model, optimizer, step):
        state = (model.state_dict(), optimizer.state_dict(), torch.get_rng_state(), step)
        other = Path(path).with_name("half-written")
        other.write_bytes(pickle.dumps(state))
        other.replace(path)

    @staticmethod
    def load(path, model, optimizer):
        state = pickle.loads(Path(path).read_bytes())
        model.load_state_dict(state[0])
        optimizer.load_state_dict(state[1])
        torch.set_rng_state(state[2])
        return state[3]


class WithClassMethods:
    @classmethod
    def save(cls, path, model, optimizer, step):
        torch.save(cls.everything(model, optimizer) | {"step": torch.tensor(step)}, str(path) + "~")
        os.rename(str(path) + "~", path)

    @classmethod
    def everything(cls, model, optimizer):
        return {"m": model.state_dict(), "o": optimizer.state_dict(), "r": torch.get_rng_state()}

    @classmethod
    def load(cls, path, model, optimizer):
        kept = torch.load(path, weights_only=True)
        model.load_state_dict(kept["m"])
        optimizer.load_state_dict(kept["o"])
        torch.set_rng_state(kept["r"])
        return int(kept["step"])


class TwoNames(WithClassMethods):
    @classmethod
    def save(cls, path, model, optimizer, step):
        new = path.parent / f"step-{step}.part"
        torch.save(cls.everything(model, optimizer) | {"step": step}, new)
        os.replace(new, path)


RIGHT = {
    "09.1": [WithAList, WithACounter, WithAProperty, WithTensors, Inherits],
    "09.2": [with_torchs_clipping, all_at_once, with_autograd_grad, scaled_losses],
    "09.3": [WithBytes, WithPickle, WithClassMethods, TwoNames],
    "09.4": ["B", "b"],
}


class Synced(WithClassMethods):
    @classmethod
    def save(cls, path, model, optimizer, step):
        new = Path(path).with_name("half-written")
        with open(new, "wb") as file:
            torch.save(cls.everything(model, optimizer) | {"step": step}, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, path)


class InTwoSteps(WithClassMethods):
    @staticmethod
    def save(path, model, optimizer, step):
        buffer = io.BytesIO()
        torch.save(WithClassMethods.everything(model, optimizer) | {"step": step}, buffer)
        Path(f"{path}.new").write_bytes(buffer.getvalue())
        Path(f"{path}.new").rename(path)


RIGHT["09.3"] += [Synced, InTwoSteps]
