"""How many processes there are: torchrun and SLURM say it in the environment, else the settings do."""

import pytest
import torch

from unihssl import UserError
from unihssl.config import Settings
from unihssl.training.fabric import find_processes, make_fabric

TORCHRUN = {
    "TORCHELASTIC_RUN_ID": "none",
    "WORLD_SIZE": 4,
    "LOCAL_WORLD_SIZE": 2,
    "RANK": 3,
    "LOCAL_RANK": 1,
    "GROUP_RANK": 1,
}
SBATCH = {"SLURM_JOB_NAME": "train", "SLURM_NTASKS": 4, "SLURM_NTASKS_PER_NODE": 2, "SLURM_NNODES": 2}
SRUN = SBATCH | {"SLURM_STEP_ID": 0, "SLURM_PROCID": 3, "SLURM_LOCALID": 1, "SLURM_NODEID": 1}
ON_CPU = Settings(device="cpu")


@pytest.fixture
def environment(monkeypatch):
    """Sets variables; Fabric's notion of who prints is put back afterwards."""
    from lightning_fabric.utilities.rank_zero import rank_zero_only
    from lightning_utilities.core.rank_zero import rank_zero_only as shared

    monkeypatch.setattr(rank_zero_only, "rank", 0)
    monkeypatch.setattr(shared, "rank", 0)

    def put(values: dict[str, object]) -> None:
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return put


@pytest.mark.parametrize("variables", [TORCHRUN, SRUN])
@pytest.mark.parametrize("settings", [ON_CPU, Settings(device="cpu", devices=2, nodes=2)])
def test_the_launcher_says_how_many(environment, variables, settings):
    environment(variables)
    fabric = make_fabric(settings)
    assert (fabric.world_size, fabric.global_rank, fabric.local_rank, fabric.node_rank) == (4, 3, 1, 1)
    assert (fabric.strategy.num_processes, fabric.strategy.num_nodes) == (2, 2)
    fabric.strategy.cluster_environment.validate_settings(2, 2)
    assert fabric.strategy.cluster_environment.creates_processes_externally


@pytest.mark.parametrize(("variables", "name"), [(TORCHRUN, "torchrun"), (SRUN, "SLURM")])
def test_settings_may_not_contradict_the_launcher(environment, variables, name):
    environment(variables)
    with pytest.raises(UserError, match=f"devices=3, but {name} started 2 processes on each machine: .*devices=2"):
        make_fabric(Settings(device="cpu", devices=3))
    with pytest.raises(UserError, match=f"nodes=3, but {name} started 2 machines: .*nodes=2"):
        make_fabric(Settings(device="cpu", nodes=3))


def test_unequal_machines_are_refused(environment):
    environment(TORCHRUN | {"WORLD_SIZE": 5})
    with pytest.raises(UserError, match="2 of 5 processes on this machine: give all machines equally many"):
        find_processes(ON_CPU, on_gpu=False)


@pytest.mark.parametrize("per_node", ["", "3"])
def test_slurm_must_say_how_many_tasks_a_node_has(environment, per_node):
    environment(SRUN | {"SLURM_NTASKS_PER_NODE": per_node})
    with pytest.raises(UserError, match="4 tasks on 2 machines: ask for --ntasks-per-node"):
        find_processes(ON_CPU, on_gpu=False)


@pytest.mark.parametrize(
    "variables", [SBATCH, SRUN | {"SLURM_JOB_NAME": "interactive"}, SRUN | {"SLURM_NTASKS": 1, "SLURM_NNODES": 1}]
)
def test_in_a_slurm_job_but_not_one_of_several_tasks(environment, variables):
    environment(variables)
    assert make_fabric(ON_CPU).world_size == 1
    fabric = make_fabric(Settings(device="cpu", devices=3))  # Fabric starts them, as on any machine
    assert fabric.world_size == 3 and not fabric.strategy.cluster_environment.creates_processes_externally


def test_fabric_starts_what_the_settings_ask_for(environment):
    environment({"NODE_RANK": 1, "MASTER_ADDR": "first", "MASTER_PORT": 1234})
    fabric = make_fabric(Settings(device="cpu", devices=2, nodes=3))
    assert (fabric.world_size, fabric.global_rank) == (6, 2)
    assert not fabric.strategy.cluster_environment.creates_processes_externally
    assert make_fabric(ON_CPU).world_size == 1


def test_machines_must_know_where_to_meet(environment):
    with pytest.raises(UserError, match="nodes=2, but not set: MASTER_ADDR, MASTER_PORT, NODE_RANK"):
        make_fabric(Settings(device="cpu", nodes=2))
    environment({"NODE_RANK": 0, "MASTER_ADDR": "first"})
    with pytest.raises(UserError, match=r"nodes=2, but not set: MASTER_PORT\."):
        make_fabric(Settings(device="cpu", nodes=2))


def test_more_gpus_than_there_are(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for there, printed in ((2, "2 GPUs are"), (1, "one GPU is")):
        monkeypatch.setattr(torch.cuda, "device_count", lambda there=there: there)
        with pytest.raises(UserError, match=f"devices=4, but {printed} visible here: use devices={there}"):
            make_fabric(Settings(devices=4))
