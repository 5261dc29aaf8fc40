"""Families of timm backbones as tiny random networks: built at a size of choice, trained, saved, loaded."""

from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.models import convnext, eva, register_model, swin_transformer, vision_transformer
from timm.models.vision_transformer import resample_abs_pos_embed

import unihssl
from unihssl.errors import UserError
from unihssl.models.backbones import build_backbone
from unihssl.training import step as step_module

SMALL: dict[str, Any] = {"embed_dim": 32, "depth": 2, "num_heads": 2}


@register_model
def tiny_dinov2(pretrained: bool = False, **options: Any) -> torch.nn.Module:
    own = {"patch_size": 14, "init_values": 1e-5, "reg_tokens": 4, "no_embed_class": True, **SMALL}
    return vision_transformer._create_vision_transformer("vit_small_patch14_reg4_dinov2", pretrained, **own | options)


@register_model
def tiny_dinov3(pretrained: bool = False, **options: Any) -> torch.nn.Module:
    own = {"patch_size": 16, "dynamic_img_size": True, "num_reg_tokens": 4, "use_rot_pos_emb": True, **SMALL}
    own |= {"use_abs_pos_emb": False, "rope_type": "dinov3", "init_values": 1e-5, "use_fc_norm": False}
    return eva._create_eva("vit_small_patch16_dinov3", pretrained, **own | options)


@register_model
def tiny_clip(pretrained: bool = False, **options: Any) -> torch.nn.Module:
    own = {"patch_size": 16, "pre_norm": True, "norm_layer": torch.nn.LayerNorm, **SMALL}
    return vision_transformer._create_vision_transformer("vit_base_patch16_clip_224", pretrained, **own | options)


@register_model
def tiny_siglip(pretrained: bool = False, **options: Any) -> torch.nn.Module:
    own = {"patch_size": 16, "class_token": False, "global_pool": "map", **SMALL}
    return vision_transformer._create_vision_transformer("vit_base_patch16_siglip_224", pretrained, **own | options)


@register_model
def tiny_swin(pretrained: bool = False, **options: Any) -> torch.nn.Module:
    own = {"patch_size": 4, "window_size": 4, "embed_dim": 16, "depths": (1, 1, 1, 1), "num_heads": (1, 2, 2, 2)}
    return swin_transformer._create_swin_transformer("swin_tiny_patch4_window7_224", pretrained, **own | options)


@register_model
def tiny_convnext(pretrained: bool = False, **options: Any) -> torch.nn.Module:
    own = {"depths": (1, 1, 1, 1), "dims": (8, 16, 24, 32)}
    return convnext._create_convnext("convnext_tiny", pretrained, **own | options)


SIDES = {"tiny_dinov2": 56, "tiny_dinov3": 64, "tiny_clip": 64, "tiny_siglip": 64, "tiny_swin": 64, "tiny_convnext": 64}
KNOBS: dict[str, Any] = {"weights": "none", "batch_size": 8, "max_steps": 3, "pretrain_epochs": 1, "device": "cpu"}
KNOBS |= {"tensorboard": False, "optimizer": "adamw", "layer_decay": 0.7, "checkpoint_seconds": 0}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SIDES)
def test_it_trains_is_saved_and_predicts(name, image_arrays, tmp_path) -> None:
    model = unihssl.fit(*image_arrays, tmp_path / "run", backbone=name, input_size=SIDES[name], **KNOBS)
    assert model.architecture.side == SIDES[name]
    x = image_arrays[1][0][:4]
    found = unihssl.load(tmp_path / "run").predict_proba(x)
    np.testing.assert_array_equal(found, model.predict_proba(x))
    assert np.isfinite(found).all()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SIDES)
def test_its_step_is_replayed_as_a_whole(name, image_arrays, tmp_path, monkeypatch) -> None:
    captured = []
    real = step_module.Step._captured
    monkeypatch.setattr(step_module.Step, "_captured", lambda self: captured.append(1) or real(self))
    knobs = KNOBS | {
        "backbone": name,
        "input_size": SIDES[name],
        "device": "cuda",
        "max_steps": 8,
        "pretrain_epochs": 2,
    }
    model = unihssl.fit(*image_arrays, tmp_path / "run", **knobs)
    assert captured
    assert np.isfinite(model.predict_proba(image_arrays[1][0][:4])).all()


def test_positions_of_one_size_are_computed_once(monkeypatch) -> None:
    """Computed anew for every batch on the host, a GPU would wait for them."""
    torch.manual_seed(0)
    encoder, _, _ = build_backbone("tiny_dinov3", "none", input_size=64)
    torch.manual_seed(0)
    dynamic = tiny_dinov3(num_classes=0, img_size=64)
    x = torch.rand(2, 3, 64, 64)
    torch.testing.assert_close(encoder.eval()(x), dynamic.eval()(x))
    monkeypatch.setattr(type(encoder.rope), "_create_embed", None)
    encoder(x)


@pytest.mark.parametrize("name", SIDES)
def test_a_file_of_another_size_fits(name, tmp_path) -> None:
    """Weights of 96 (dinov2: 84) pixels in a network of 64 (56): positions are resampled, all else is the same."""
    side = SIDES[name] * 3 // 2
    torch.manual_seed(0)
    larger, _, _ = build_backbone(name, "none", input_size=side)
    saved = {key: tensor.clone() for key, tensor in larger.state_dict().items()}
    save_file(saved, tmp_path / "w.safetensors")
    encoder, architecture, width = build_backbone(name, str(tmp_path / "w.safetensors"), input_size=SIDES[name])
    for key, tensor in encoder.state_dict().items():
        if key == "pos_embed":
            tokens = getattr(larger, "num_prefix_tokens", 0) if not getattr(larger, "no_embed_class", False) else 0
            grid = [SIDES[name] // larger.patch_embed.patch_size[0]] * 2
            expected = resample_abs_pos_embed(saved[key], grid, num_prefix_tokens=tokens)
            torch.testing.assert_close(tensor, expected)
        elif tensor.shape == saved[key].shape and tensor.is_floating_point() and "position" not in key:
            torch.testing.assert_close(tensor, saved[key], rtol=0, atol=0)
    assert encoder.eval()(torch.rand(1, 3, architecture.side, architecture.side)).shape == (1, width)


def test_a_side_smaller_than_a_patch_is_refused() -> None:
    with pytest.raises(UserError, match="tiny_dinov2 cannot take images of 8 pixels"):
        build_backbone("tiny_dinov2", "none", input_size=8)


def test_what_the_network_sees_is_said(image_arrays, tmp_path, capsys) -> None:
    options = {"backbone": "tiny_clip", "input_size": 32, "image_size": 40, **KNOBS}
    unihssl.fit(*image_arrays, tmp_path / "run", verbose=True, **options)
    said = capsys.readouterr().err
    assert "images stored at 40x40, seen at 32x32" in said
    assert "initial_statistics='unlabeled' is about BatchNorm, of which the backbone trains none" in said
