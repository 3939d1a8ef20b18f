"""Federated learning with Flower, with user-level privacy and noise that is correlated over rounds.

    from evertally.flower import PrivateFedAvg, ask_users
    from evertally.training import federated

    plan = federated.plan_rounds(100, population=1000, cohort=50, epsilon=4.0, delta=1e-4, norm=0.5)

    @app.main()
    def main(grid, context):
        strategy = PrivateFedAvg(plan, key, "run 1", folder="run", users=ask_users)
        result = strategy.start(grid, initial_arrays=ArrayRecord(model.state_dict()))

Clients are those of FedAvg: they train the arrays that they get, and return theirs. The strategy computes each client's
update, clips it to the plan's norm, sums the updates without weights, adds the noise and divides by the planned cohort
(`evertally.training.federated.Server`). It samples cohorts among the users that the plan allows in a round, and records
who took part, across restarts.

Updates are clipped on the server, whatever clients return. Clients can also clip: the strategy sends them the norm, and
`flwr.clientapp.mod.fixedclipping_mod` is a mod for it.

The module refuses a user that takes part too often or too soon, and rounds beyond the plan. It returns no metrics of
clients, and evaluates only on the server (`evaluate_fn`): metrics are not covered by the guarantee. The caller is
responsible for the following: a user is one node, or `users` names the same user for all of its nodes; `evaluate_fn`
and stopping do not read private data.
"""

try:
    import flwr as flwr
except ImportError as missing:
    raise ImportError("evertally.flower needs Flower: pip install flwr") from missing

from evertally.flower._strategy import PrivateFedAvg
from evertally.flower._users import ask_users

__all__ = ["PrivateFedAvg", "ask_users"]
