# SPDX-License-Identifier: Apache-2.0
"""ViT against transformers, live: hidden states, logits, loss, every gradient, resized positions, bf16, folders there and
back; and image files and their preparation against Pillow and ViTImageProcessor."""

import json
import math
import subprocess

import numpy
import pytest
import torch
from common import adamw_losses, assert_close, parity, run
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoModel, AutoModelForImageClassification, ViTConfig, ViTForImageClassification, ViTModel
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

CONFIGS = {
    "odd": dict(hidden_size=36, num_hidden_layers=3, num_attention_heads=3, intermediate_size=50, image_size=24, patch_size=6),
    "oblong": dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=4, intermediate_size=60, image_size=[20, 33],
                   patch_size=[4, 6], num_channels=1, qkv_bias=False, hidden_act="relu", pooler_output_size=7, pooler_act="gelu"),
    "long": dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, image_size=80, patch_size=4,
                 layer_norm_eps=1e-3, hidden_act="gelu_new"),
    "one_patch": dict(hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=16, image_size=10, patch_size=9),
}


def make(name, architecture, folder, **options):
    """transformers' model with random weights, and its folder."""
    torch.manual_seed(sum(map(ord, name)))
    model = architecture(ViTConfig(**{**CONFIGS[name], "num_labels": 5, **options}))
    with torch.no_grad():  # weights far from their start, biases that are not zero
        for p in model.parameters():
            p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(folder)
    return model.eval()


def random_images(config, count=3):
    axes = lambda size: list(size) if isinstance(size, (list, tuple)) else [size, size]
    return torch.randn(count, config.num_channels, *axes(config.image_size))


def check_gradients(ours, theirs, folder, prefix=""):
    """Every parameter's, under the name that transformers itself stored it by."""
    for p in theirs.parameters():
        p.data, p.grad = p.grad, None
    theirs.save_pretrained(folder)
    wanted = {prefix + name: gradient for name, gradient in load_file(folder / "model.safetensors").items()}
    assert {"grad." + name for name in wanted} == {name for name in ours if name.startswith("grad.")}
    for name, gradient in wanted.items():
        # A key's bias adds the same to all scores of a query: its gradient is rounding.
        if name.endswith("key.bias"):
            continue
        assert_close(ours["grad." + name], gradient, 1e-4, name)


@pytest.mark.parametrize("name", CONFIGS)
def test_logits_loss_and_every_gradient(name, tmp_path):
    theirs = make(name, ViTForImageClassification, tmp_path / "model")
    images, labels = random_images(theirs.config), torch.tensor([4, 0, 1])
    ours = parity("forward", tmp_path / "model", {"images": images, "labels": labels})
    out = theirs(images, labels=labels)
    assert_close(ours["hidden"], theirs.vit(images).last_hidden_state, 1e-5, "hidden")
    assert_close(ours["logits"], out.logits, 1e-5, "logits")
    assert_close(ours["loss"], out.loss.reshape(1), 1e-5, "loss")
    out.loss.backward()
    check_gradients(ours, theirs, tmp_path / "gradients")


@pytest.mark.parametrize("name", CONFIGS)
def test_features_and_pooler(name, tmp_path):
    theirs = make(name, ViTModel, tmp_path / "model")
    images = random_images(theirs.config)
    ours, out = parity("forward", tmp_path / "model", {"images": images}), theirs(images)
    assert_close(ours["logits"], out.last_hidden_state, 1e-5, "features")
    assert_close(ours["pooled"], out.pooler_output, 1e-5, "pooled")


def test_features_without_a_pooler(tmp_path):
    theirs = make("odd", lambda config: ViTModel(config, add_pooling_layer=False), tmp_path / "model")
    images = random_images(theirs.config)
    ours = parity("forward", tmp_path / "model", {"images": images})
    assert_close(ours["logits"], theirs(images).last_hidden_state, 1e-5, "features")
    assert "pooled" not in ours


@pytest.mark.parametrize("problem, labels", [("regression", torch.randn(3, 5)), ("multi_label_classification", torch.ones(3, 5).tril())])
def test_other_problems(problem, labels, tmp_path):
    theirs = make("odd", ViTForImageClassification, tmp_path / "model", problem_type=problem)
    images = random_images(theirs.config)
    ours = parity("forward", tmp_path / "model", {"images": images, "labels": labels})
    assert_close(ours["loss"], theirs(images, labels=labels).loss.reshape(1), 1e-5, "loss")


@pytest.mark.parametrize("size", [(36, 24), (24, 36), (12, 30), (50, 50), (6, 6)])
def test_resized_positions(size, tmp_path):
    """transformers resizes square grids only; the images may have any shape."""
    folder = tmp_path / "model"
    theirs = make("odd", ViTForImageClassification, folder)
    images, labels = torch.randn(2, 3, *size), torch.tensor([3, 1])
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", folder, {"images": images})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "interpolate_pos_encoding": True}))
    ours = parity("forward", folder, {"images": images, "labels": labels})
    out = theirs(images, labels=labels, interpolate_pos_encoding=True)
    assert_close(ours["logits"], out.logits, 1e-5, "logits")
    out.loss.backward()
    check_gradients(ours, theirs, tmp_path / "gradients")
    run("copy", folder, tmp_path / "copy")  # the setting survives
    assert_close(parity("forward", tmp_path / "copy", {"images": images})["logits"], out.logits, 1e-5, "logits of the copy")


@pytest.mark.parametrize("name", CONFIGS)
def test_bf16(name, tmp_path):
    """Not further from f32 than transformers in bf16."""
    theirs = make(name, ViTForImageClassification, tmp_path / "model")
    images = random_images(theirs.config, 8)
    wanted = theirs(images).logits
    ours = parity("forward", tmp_path / "model", {"images": images}, "bf16")["logits"]
    assert ours.dtype == torch.bfloat16
    error = lambda have: (have.float() - wanted).norm().item()
    assert error(ours) <= 1.5 * error(theirs.bfloat16()(images.bfloat16()).logits)


@pytest.mark.parametrize("name", CONFIGS)
def test_training_curve(name, tmp_path):
    """Twelve AdamW steps; tables and class tokens have three axes, and decay like matrices."""
    theirs = make(name, ViTForImageClassification, tmp_path / "model").train()
    images, labels = torch.stack([random_images(theirs.config, 4) for _ in range(12)]), torch.randint(5, (12, 4))
    ours = parity("train", tmp_path / "model", {"images": images, "labels": labels}, 1e-3)["losses"]
    assert_close(ours, adamw_losses(theirs, zip(images, labels), lambda x, y: theirs(x, labels=y).loss), 1e-4, "losses")


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("architecture, auto", [(ViTForImageClassification, AutoModelForImageClassification), (ViTModel, AutoModel)])
def test_saved_by_us_loads_in_transformers(name, architecture, auto, tmp_path):
    labels = {"id2label": dict(enumerate(["cat", "dog", "hen"])), "label2id": {"cat": 0, "dog": 1, "hen": 2}, "num_labels": 3}
    theirs = make(name, architecture, tmp_path / "model", **labels)
    run("copy", tmp_path / "model", tmp_path / "ours")
    back, report = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    images = random_images(theirs.config)
    assert torch.equal(back.eval()(images)[0], theirs(images)[0])
    if architecture is ViTForImageClassification:
        assert back.config.id2label == labels["id2label"]


@pytest.mark.parametrize("change, word", [({"architectures": ["ViTForMaskedImageModeling"]}, "ViTForMaskedImageModeling"),
                                          ({"hidden_act": "gelux"}, "gelu"), ({"patch_size": [3, 4, 5]}, "patch_size"),
                                          ({"image_size": 4}, "6 x 6"), ({"image_size": "24"}, "image_size"),
                                          ({"id2label": {"0": "a", "2": "b"}}, "id2label"), ({"num_channels": 4}, "projection.weight"),
                                          ({"problem_type": "ranking"}, "ranking")])
def test_configs_that_are_refused(change, word, tmp_path, capfd):
    make("odd", ViTForImageClassification, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", tmp_path, {"images": torch.zeros(1, 3, 24, 24)})
    assert word in capfd.readouterr().err


@pytest.mark.parametrize("images, word", [(torch.zeros(1, 3, 24, 25), "24 x 25"), (torch.zeros(1, 1, 24, 24), "3 channels"),
                                          (torch.zeros(3, 24, 24), "[B, channels, Y, X]"),
                                          (torch.zeros(1, 3, 24, 24, dtype=torch.uint8), "floating-point")])
def test_images_that_do_not_fit(images, word, tmp_path, capfd):
    make("odd", ViTForImageClassification, tmp_path)
    with pytest.raises(subprocess.CalledProcessError):
        parity("forward", tmp_path, {"images": images})
    assert word in capfd.readouterr().err


# ---- Image files and their preparation ------------------------------------------------------------------------------


def picture(height, width, channels=3):
    """Something smooth with edges and noise, uint8 [height, width, channels]."""
    random = numpy.random.default_rng(height * 1000 + width)
    y, x = numpy.mgrid[0:height, 0:width]
    smooth = numpy.stack([numpy.sin((c + 2) * y / 17 + x / (5 + 3 * c)) for c in range(channels)], -1)
    edges = ((x // 9 + y // 7) % 2)[..., None] * 90
    return (110 + 60 * smooth + edges + random.normal(0, 6, smooth.shape)).clip(0, 255).astype(numpy.uint8)


def read(folder, path, channels=3):
    """{pixels [C, Y, X] as read, prepared as the folder's preprocessor_config.json says}."""
    run("image", folder, path, folder / "out.safetensors", channels)
    return load_file(folder / "out.safetensors")


def image_of(pixels, mode):
    if mode in ("L", "1"):
        return Image.fromarray(pixels[..., 0]).convert(mode)
    if mode == "P":
        return Image.fromarray(pixels).quantize(37)
    if mode == "LA":
        return Image.merge("LA", [Image.fromarray(pixels[..., c]) for c in range(2)])
    if mode == "RGBA":
        return Image.merge("RGBA", [Image.fromarray(pixels[..., c]) for c in (0, 1, 2, 1)])
    return Image.fromarray(pixels)


@pytest.mark.parametrize("mode", ["RGB", "L", "P", "RGBA", "LA", "1"])
@pytest.mark.parametrize("size", [(1, 1), (13, 29), (64, 50)])
def test_png_is_read_as_pillow_reads_it(mode, size, tmp_path):
    ViTImageProcessorPil(do_resize=False).save_pretrained(tmp_path)
    image_of(picture(*size), mode).save(tmp_path / "image.png")
    for channels, wanted in ((3, "RGB"), (1, "L")):
        want = torch.tensor(numpy.array(Image.open(tmp_path / "image.png").convert(wanted))).reshape(*size, channels).permute(2, 0, 1)
        assert torch.equal(read(tmp_path, tmp_path / "image.png", channels)["pixels"], want)


@pytest.mark.parametrize("options", [dict(quality=90), dict(quality=60, progressive=True), dict(quality=95, subsampling=0), dict(quality=75, optimize=True)])
@pytest.mark.parametrize("mode", ["RGB", "L"])
@pytest.mark.parametrize("size", [(1, 1), (13, 29), (64, 50)])
def test_jpeg_is_read_as_pillow_reads_it(mode, options, size, tmp_path):
    """To a level or so: another version of libjpeg-turbo may round otherwise."""
    ViTImageProcessorPil(do_resize=False).save_pretrained(tmp_path)
    image_of(picture(*size), mode).save(tmp_path / "image.jpg", **options)
    want = torch.tensor(numpy.array(Image.open(tmp_path / "image.jpg").convert("RGB"))).permute(2, 0, 1)
    have = read(tmp_path, tmp_path / "image.jpg")["pixels"]
    assert (have.int() - want.int()).abs().max() <= 2


def test_cmyk_and_other_formats_are_refused(tmp_path, capfd):
    ViTImageProcessorPil().save_pretrained(tmp_path)
    image = image_of(picture(8, 8), "RGB")
    image.convert("CMYK").save(tmp_path / "cmyk.jpg")
    image.save(tmp_path / "image.gif")
    image.save(tmp_path / "image.bmp")
    for name, word in (("cmyk.jpg", "CMYK"), ("image.gif", "GIF"), ("image.bmp", "BMP")):
        with pytest.raises(subprocess.CalledProcessError):
            read(tmp_path, tmp_path / name)
        assert word in capfd.readouterr().err


PROCESSORS = {
    "default": {},
    "oblong": dict(size={"height": 17, "width": 40}),
    "bicubic": dict(size={"height": 30, "width": 20}, resample=3),
    "larger": dict(size={"height": 90, "width": 130}),
    "imagenet": dict(image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225], size={"height": 33, "width": 33}),
    "no_resize": dict(do_resize=False, rescale_factor=1 / 127.5),
    "only_resize": dict(do_rescale=False, do_normalize=False, size={"height": 9, "width": 9}),
}


@pytest.mark.parametrize("name", PROCESSORS)
@pytest.mark.parametrize("size", [(64, 50), (48, 96)])
def test_preparation_equals_the_image_processor(name, size, tmp_path):
    """To one level of the resized image, on average a quarter at most: Pillow rounds between its two passes."""
    processor = ViTImageProcessorPil(**PROCESSORS[name])
    processor.save_pretrained(tmp_path)
    image = image_of(picture(*size), "RGB")
    image.save(tmp_path / "image.png")
    have = read(tmp_path, tmp_path / "image.png")["prepared"]
    want = torch.as_tensor(numpy.asarray(processor(image, return_tensors="pt")["pixel_values"][0]))
    assert have.shape == want.shape
    level = (processor.rescale_factor if processor.do_rescale else 1) / (min(processor.image_std) if processor.do_normalize else 1)
    off = (have - want.float()).abs() / level
    assert off.max() <= (1.01 if processor.do_resize else 1e-3)
    assert off.mean() <= 0.25


def test_resizing_equals_torch(tmp_path):
    """Bit for bit what torchvision's backend calls."""
    ViTImageProcessorPil(size={"height": 21, "width": 35}, do_rescale=False, do_normalize=False).save_pretrained(tmp_path)
    image_of(picture(64, 50), "RGB").save(tmp_path / "image.png")
    out = read(tmp_path, tmp_path / "image.png")
    want = torch.nn.functional.interpolate(out["pixels"][None], size=(21, 35), mode="bilinear", antialias=True)[0]
    assert torch.equal(out["prepared"], want.float())


@pytest.mark.parametrize("change, word", [({"do_center_crop": True}, "cropping"), ({"resample": 1}, "resample"), ({"size": {"shortest_edge": 9}}, "size"),
                                          ({"image_processor_type": "CLIPImageProcessor"}, "CLIP"), ({"image_std": [0, 1, 1]}, "deviation of 0"),
                                          ({"image_mean": [0.5, 0.5]}, "2 numbers"), ({"size": 0}, "0 x 0"), ({"image_mean": "x"}, "image_mean")])
def test_processors_that_are_refused(change, word, tmp_path, capfd):
    ViTImageProcessorPil().save_pretrained(tmp_path)
    path = tmp_path / "preprocessor_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    image_of(picture(8, 8), "RGB").save(tmp_path / "image.png")
    with pytest.raises(subprocess.CalledProcessError):
        read(tmp_path, tmp_path / "image.png")
    assert word in capfd.readouterr().err


def test_an_older_folder_and_one_of_ours(tmp_path):
    """`size` as one number; and what we write, transformers reads to the same values."""
    (tmp_path / "preprocessor_config.json").write_text(json.dumps({"feature_extractor_type": "ViTFeatureExtractor", "do_normalize": True,
                                                                   "do_resize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3,
                                                                   "resample": 2, "size": 20}))
    image_of(picture(31, 64), "RGB").save(tmp_path / "image.png")
    first = read(tmp_path, tmp_path / "image.png")
    assert first["prepared"].shape == (3, 20, 20)
    back = ViTImageProcessorPil.from_pretrained(tmp_path / "saved")
    assert (back.size["height"], back.size["width"]) == (20, 20)
    assert math.isclose(back.rescale_factor, 1 / 255) and back.resample == 2 and list(back.image_mean) == [0.5] * 3
    (tmp_path / "saved" / "out.safetensors").unlink(missing_ok=True)
    assert torch.equal(read(tmp_path / "saved", tmp_path / "image.png")["prepared"], first["prepared"])
