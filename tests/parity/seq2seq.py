# SPDX-License-Identifier: Apache-2.0
"""What T5 and BART are held against: transformers' model of the same folder."""

import json

import torch
from common import adamw_losses, assert_close, parity, run
from transformers import AutoModelForSeq2SeqLM


def shake(model, amount):
    """Weights far from their start, biases that are not zero, norms that are not one."""
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn_like(p) * amount)


def pairs(vocabulary, source_lengths, target_lengths):
    """Sources and labels padded on the right; no token is one with a role."""
    ids = torch.randint(4, vocabulary, (len(source_lengths), max(source_lengths)))
    labels = torch.randint(4, vocabulary, (len(target_lengths), max(target_lengths)))
    for b, n in enumerate(target_lengths):
        labels[b, n:] = -100
    lengths = torch.tensor(source_lengths)
    mask = (torch.arange(ids.shape[1]) < lengths[:, None]).long()
    return ids, lengths, mask, labels


def check_logits_loss_and_gradients(theirs, folder, source_lengths, target_lengths):
    ids, lengths, mask, labels = pairs(theirs.config.vocab_size, source_lengths, target_lengths)
    ours = parity("forward", folder, {"ids": ids, "lengths": lengths, "labels": labels})
    out = theirs(ids, attention_mask=mask, labels=labels)
    real = labels != -100
    assert_close(ours["logits"][real], out.logits[real], 1e-5, "logits")
    out.loss.backward()
    assert_close(ours["loss"], out.loss.reshape(1), 1e-6, "loss")
    gradients = {name: p.grad for name, p in theirs.named_parameters() if p.grad is not None}
    constant = {"grad." + name for name, _ in theirs.named_buffers()}
    assert gradients.keys() == {k[5:] for k in ours if k.startswith("grad.") and k not in constant}
    for name, wanted in gradients.items():
        have = ours["grad." + name]
        if name.endswith("k_proj.bias"):  # the same for all keys of a row: 0, but for rounding
            largest = gradients[name.replace("k_proj", "q_proj")].abs().max()
            assert max(have.abs().max(), wanted.abs().max()) <= 1e-4 * largest, name
        else:
            assert_close(have, wanted, 1e-4, name)
    # Given decoder input is the same as shifted labels.
    start = torch.full((len(labels), 1), theirs.config.decoder_start_token_id)
    target = torch.cat([start, labels[:, :-1].masked_fill(labels[:, :-1] == -100, theirs.config.pad_token_id)], 1)
    given = parity("forward", folder, {"ids": ids, "lengths": lengths, "target_ids": target})["logits"]
    assert torch.equal(given, ours["logits"])


def check_cached_steps(theirs, folder):
    ids, lengths, mask, target = pairs(theirs.config.vocab_size, [70, 9, 1], [80, 80, 80])
    logits = theirs(ids, attention_mask=mask, decoder_input_ids=target).logits
    for prompt in (1, 70):
        ours = parity("decode", folder, {"ids": target, "prompt": torch.tensor([prompt]), "source": ids, "source_lengths": lengths})
        assert_close(ours["logits"], logits, 1e-5, f"logits after {prompt}")


def check_generated(theirs, folder, tokens, options, their_options):
    """Token for token, rows of one batch against single runs."""
    ids, lengths, _, _ = pairs(theirs.config.vocab_size, [11, 3, 30], [1, 1, 1])
    end, pad = theirs.config.eos_token_id, theirs.config.pad_token_id
    options = {"end_ids": [end], "pad_id": pad, "start_id": theirs.config.decoder_start_token_id, **options}
    ours = parity("generate", folder, {"ids": ids, "lengths": lengths}, tokens, json.dumps(options))
    theirs.generation_config.forced_eos_token_id = None  # where a test wants one it says so
    for row, score, source, n in zip(ours["ids"], ours["scores"], ids, lengths):
        out = theirs.generate(
            source[None, :n], max_new_tokens=tokens, do_sample=False, eos_token_id=end, pad_token_id=pad, return_dict_in_generate=True, output_scores=True, **their_options
        )
        wanted = out.sequences[0, 1:].tolist()
        assert row.tolist() == wanted + [pad] * (len(row) - len(wanted))
        if their_options.get("num_beams", 1) > 1:
            assert abs(score.item() - out.sequences_scores[0].item()) < 1e-4


def check_bf16(theirs, folder):
    ids, lengths, mask, target = pairs(theirs.config.vocab_size, [70, 9], [66, 66])
    exact = theirs(ids, attention_mask=mask, decoder_input_ids=target).logits
    ours = parity("forward", folder, {"ids": ids, "lengths": lengths, "target_ids": target}, "bf16")["logits"]
    assert ours.dtype == torch.bfloat16
    error = (ours.double() - exact.double()).abs().mean()
    reference = (theirs.bfloat16()(ids, attention_mask=mask, decoder_input_ids=target).logits.double() - exact.double()).abs().mean()
    assert error <= 1.2 * reference, f"{error:.4f}, transformers {reference:.4f}"


def check_the_way_back(theirs, folder, tmp):
    run("copy", folder, tmp / "ours")
    back = AutoModelForSeq2SeqLM.from_pretrained(tmp / "ours").eval()
    assert type(back) is type(theirs)
    ids, _, mask, target = pairs(theirs.config.vocab_size, [12, 5], [9, 9])
    wanted = theirs(ids, attention_mask=mask, decoder_input_ids=target).logits
    assert torch.equal(back(ids, attention_mask=mask, decoder_input_ids=target).logits, wanted)
    return back


def check_training_curve(theirs, folder, steps=10):
    vocabulary = theirs.config.vocab_size
    ids, labels = torch.randint(4, vocabulary, (steps, 4, 17)), torch.randint(4, vocabulary, (steps, 4, 13))
    ours = parity("train", folder, {"ids": ids, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(ids, labels), lambda x, y: theirs(x, labels=y).loss), 1e-4, "losses")


def refused(folder, changes, capfd):
    """Each changed config.json is an error that says the words beside it."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for change, said in changes:
        path.write_text(json.dumps({**config, **change}))
        try:
            parity("forward", folder, {"ids": torch.zeros(1, 3, dtype=torch.long), "labels": torch.zeros(1, 2, dtype=torch.long)})
        except Exception:
            assert said in capfd.readouterr().err
        else:
            raise AssertionError(f"{change} was accepted")
    path.write_text(json.dumps(config))
