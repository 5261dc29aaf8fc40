"""The pseudo-label memory, row by row."""

import pytest
import torch

from unihssl.methods.pseudo_labels import PseudoLabels
from unihssl.methods.unihssl import UniHSSLParams

C = 3
OLD = torch.tensor([[0, 0, 0, 0.7, 0.2, 0.1], [0.6, 0, 0, 0.4, 0, 0]])
PREDICTION = torch.tensor([[0.1, 0.3, 0, 0.2, 0.4, 0], [0.5, 0.1, 0.1, 0.1, 0.1, 0.1]])


def memory(**knobs: object) -> PseudoLabels:
    """Four samples; rows 3 and 1 hold OLD."""
    labels = PseudoLabels(4, C, UniHSSLParams(**knobs))
    labels.table[[3, 1]] = OLD
    return labels


ROWS = torch.tensor([3, 1])


def test_a_row_keeps_beta_of_what_it_was():
    labels = memory()
    beliefs = labels.update(ROWS, PREDICTION)
    expected = [[0.8 * o + 0.2 * p for o, p in zip(*rows, strict=True)] for rows in zip(OLD, PREDICTION, strict=True)]
    torch.testing.assert_close(beliefs, torch.tensor(expected))
    torch.testing.assert_close(labels.table[ROWS], beliefs)
    assert (labels.table[[0, 2]] == 0).all()  # samples that were not drawn


def test_previous_trains_on_what_was_predicted_at_the_last_visit():
    labels = memory(pseudo_update="previous")
    assert torch.equal(labels.update(ROWS, PREDICTION), OLD)
    assert torch.equal(labels.table[ROWS], PREDICTION)
    assert torch.equal(labels.update(ROWS, OLD), PREDICTION)


@pytest.mark.parametrize("update", ["wma", "previous"])
def test_fold_moves_the_labeled_halfs_mass_to_the_same_class(update):
    labels = memory(first_half="fold", pseudo_update=update, beta=0.5)
    labels.table[ROWS] = torch.tensor([[0, 0, 0, 1.0, 0, 0]] * 2)
    labels.update(ROWS, PREDICTION)
    folded = torch.tensor([[0, 0, 0, 0.3, 0.7, 0], [0, 0, 0, 0.6, 0.2, 0.2]])
    blended = 0.5 * torch.tensor([[0, 0, 0, 1.0, 0, 0]] * 2) + 0.5 * folded
    torch.testing.assert_close(labels.table[ROWS], blended if update == "wma" else folded)


BELIEFS = torch.tensor(
    [
        [0, 0, 0, 0.6, 0.2, 0.2],  # sure, in the unlabeled half
        [0.6, 0, 0, 0.4, 0, 0],  # sure, in the labeled half
        [0, 0, 0, 0.5, 0.3, 0.2],  # exactly at the threshold
        [0.2, 0, 0, 0.4, 0.3, 0.1],  # unsure which class, sure of the half
        [0.3, 0.3, 0.2, 0.1, 0.1, 0],
    ]
)


@pytest.mark.parametrize(
    ("knobs", "trusted"),
    [
        ({}, [True, True, False, False, False]),
        ({"first_half": "fold"}, [True, True, False, False, False]),
        ({"first_half": "drop"}, [True, False, False, False, False]),
        ({"confidence": "unlabeled_mass"}, [True, False, True, True, False]),
        ({"epsilon": 0.0}, [True] * 5),
        ({"epsilon": 0.0, "first_half": "drop"}, [True, False, True, True, False]),
        ({"epsilon": 1.0}, [False] * 5),
    ],
)
def test_whom_to_trust(knobs, trusted):
    assert memory(**knobs).trusted(BELIEFS).tolist() == trusted


def test_half_of_the_mass_is_not_more_than_half():
    assert not memory(confidence="unlabeled_mass", epsilon=0.5).trusted(torch.tensor([[0.5, 0, 0, 0.25, 0.25, 0]]))


def test_targets_are_the_beliefs_or_their_peak():
    assert torch.equal(memory().targets(BELIEFS), BELIEFS)
    hard = memory(pseudo_kind="hard").targets(BELIEFS)
    assert hard.argmax(1).tolist() == [3, 0, 3, 3, 0] and hard.shape == BELIEFS.shape
    assert hard.dtype == BELIEFS.dtype and (hard.sum(1) == 1).all() and set(hard.unique().tolist()) == {0, 1}


def test_rows_of_known_class_stay_what_they_are_and_are_trusted():
    labels = PseudoLabels(4, C, UniHSSLParams(epsilon=1.0), some_exact=True)
    labels.table[[3, 1]] = OLD
    labels.fix(torch.tensor([2, -1, 0, -1]))
    assert labels.table[[0, 2]].tolist() == [[0, 0, 0, 0, 0, 1], [0, 0, 0, 1, 0, 0]]
    assert torch.equal(labels.table[[3, 1]], OLD) and labels.exact.tolist() == [True, False, True, False]
    rows = torch.tensor([2, 1])
    beliefs = labels.update(rows, PREDICTION)
    torch.testing.assert_close(beliefs, torch.stack([labels.table[2], 0.8 * OLD[1] + 0.2 * PREDICTION[1]]))
    assert labels.table[2].tolist() == [0, 0, 0, 1, 0, 0]
    assert labels.trusted(beliefs, rows).tolist() == [True, False]
    assert labels.trusted(beliefs).tolist() == [False, False]  # without their rows nobody knows
    assert PseudoLabels(4, C, UniHSSLParams()).exact is None


def test_both_halves_add_up_to_the_classes():
    assert torch.equal(memory().classes(torch.tensor([[1.0, 2, 3, 10, 20, 30]])), torch.tensor([[11.0, 22, 33]]))


def test_a_row_that_was_drawn_twice_takes_in_its_first_prediction():
    memory = PseudoLabels(4, 2, UniHSSLParams(unlabeled_sampling="balanced", beta=0.5, first_half="keep"))
    predictions = torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0], [0, 0, 1.0, 0]])
    returned = memory.update(torch.tensor([2, 0, 2]), predictions)
    assert torch.equal(returned, predictions / 2)
    assert torch.equal(memory.table[[2, 0, 1, 3]], torch.tensor([[0.5, 0, 0, 0], [0, 0.5, 0, 0], [0] * 4, [0] * 4]))
