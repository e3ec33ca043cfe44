# SPDX-License-Identifier: Apache-2.0
"""Runs the parity program on tensors and compares what comes back."""

import os
import pathlib
import subprocess
import tempfile

import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("FOVEA_BUILD", ROOT / "build" / "release"))


def run(*args, **kwargs):
    return subprocess.run([str(BUILD / "tests" / "parity"), *map(str, args)], check=True, timeout=300, **kwargs)


def parity(what, model, inputs, *args):
    """{name: tensor} for {name: tensor}; see parity_main.cpp for the verbs."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = f"{folder}/in.safetensors", f"{folder}/out.safetensors"
        save_file({k: v.contiguous() for k, v in inputs.items()}, source)
        run(what, model, source, target, *args)
        return load_file(target)


def assert_close(have, want, tolerance, name):
    """Largest difference relative to the largest wanted number."""
    have, want = have.double(), want.double()
    assert have.shape == want.shape, f"{name}: {tuple(have.shape)}, wanted {tuple(want.shape)}"
    scale = want.abs().max().item() + 1e-12
    worst = (have - want).abs().max().item() / scale
    assert worst <= tolerance, f"{name}: off by {worst:.2e} of the largest, wanted {tolerance:.0e}"


def adamw_losses(model, batches, loss_of):
    """The loss of each AdamW step, one a batch, as the parity program's verb "train" takes them at a rate of 1e-3."""
    groups = [{"params": [p for p in model.parameters() if (p.dim() >= 2) == decays], "weight_decay": 0.1 if decays else 0.0} for decays in (True, False)]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.99), eps=1e-8)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        loss = loss_of(*batch)
        losses.append(loss.item())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    return torch.tensor(losses)


def same_gradients(theirs, ours):
    """Those of a model of transformers and ours ("grad." and the name), every parameter that both have; theirs, by name."""
    gradients = {k: p.grad for k, p in theirs.named_parameters(remove_duplicate=False) if p.grad is not None and "grad." + k in ours}
    # Some are zero but for rounding: keys' biases, and whatever moves all scores of a softmax alike.
    rounding = 1e-6 * max(g.abs().max() for g in gradients.values())
    for parameter, wanted in gradients.items():
        worst = (ours["grad." + parameter] - wanted).abs().max()
        assert worst <= max(1e-4 * wanted.abs().max(), rounding), f"{parameter}: off by {worst}"
    assert len(gradients) == sum(p.grad is not None for p in theirs.parameters())  # all but a bias that nothing uses
    return gradients


def same_attention(have, want, x, parameters, tolerance):
    """Output and gradients of the verb "attention" and of a definition, whose own are in x.grad and the parameters'."""
    assert_close(have["y"], want, tolerance, "y")
    assert_close(have["grad.x"], x.grad, tolerance * 10, "x")
    for name, value in parameters.items():
        if value.grad.abs().max() < 1e-9:  # a single key, or a bias of all scores of a row: nothing but rounding
            assert have["grad." + name].abs().max() < 1e-5, name
            continue
        assert_close(have["grad." + name], value.grad, tolerance * 10, name)
