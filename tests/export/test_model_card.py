"""The README.md of a saved model."""

import yaml
from exported_models import random_model

from unihssl.evaluation.model_card import model_card


def test_no_tag_is_there_twice():
    tags = {
        method: yaml.safe_load(model_card(random_model(method, "mlp")).split("---")[1])["tags"]
        for method in ("unihssl", "mcc")
    }
    assert tags["unihssl"] == ["unihssl", "domain-adaptation", "semi-supervised-learning"]
    assert tags["mcc"] == [*tags["unihssl"], "mcc"]
