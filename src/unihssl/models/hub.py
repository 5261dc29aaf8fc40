"""Pretrained weights from timm's hub; without a connection, from its local cache or one clear sentence."""

import socket
import urllib.parse
import urllib.request

from torch import nn

from unihssl.errors import UserError


def create_from_hub(name: str, **options: object) -> nn.Module:
    """timm's model with its pretrained weights.

    The hub's client retries an unreachable host for most of a minute, so the host is tried first and the client
    told to look only in its cache when there is no answer.
    """
    import huggingface_hub.constants as hub
    import timm

    online, offline_before = _reachable(hub.ENDPOINT), hub.HF_HUB_OFFLINE
    hub.HF_HUB_OFFLINE = offline_before or not online
    try:
        model: nn.Module = timm.create_model(name, pretrained=True, **options)
        return model
    except (OSError, RuntimeError, ValueError) as error:
        reason = str(error).partition("\n")[0] if online else "the model hub cannot be reached"
        raise UserError(
            f"could not get pretrained weights for {name} ({reason}): pass --weights FILE with a local copy, "
            "or --weights none to start from scratch (for tiny images, --backbone small_cnn)"
        ) from None
    finally:
        hub.HF_HUB_OFFLINE = offline_before


def _reachable(endpoint: str) -> bool:
    host = urllib.parse.urlsplit(endpoint)
    if {host.scheme, "all"} & urllib.request.getproxies().keys():
        return True  # the proxy decides; a direct connection says nothing
    try:
        with socket.create_connection((host.hostname or "", host.port or 443), timeout=5):
            return True
    except OSError:
        return False
