"""The contract of models (`IModel`): a dict of outputs per batch, trainable parameters.

Shapes: B rows, A actions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dicore.data import tree_map, tree_row
from dicore.data.tree import to_tensor
from dicore.errors import ConfigError
from dicore.interfaces.model import IModel
from dicore.run.random import seed_everything
from dicore.testing.compare import array, copied, difference
from dicore.testing.policy.play import leaves_of
from dicore.testing.suite import Suite, expect, expect_members, skip

__all__ = ["ModelContract"]

Shape = int | tuple[int, ...]


class ModelContract(Suite):
    """Conformance suite of models: subclass it and override `make`."""

    def make(self, obs_shape: Shape, action_shape: Shape, seed: int = 0) -> Any:
        """Returns a model (`IModel`); one seed gives the same parameters.

        Raises:
            ConfigError: models of this kind do not take these shapes.
        """
        options = {"obs_shape": obs_shape, "action_shape": action_shape}
        try:
            self.registered.build(options)  # whoever imports torch first also seeds it first
        except ConfigError:
            more = self._more(obs_shape)
            if not more:
                raise
            options |= more
            self.registered.build(options)
        seed_everything(seed)
        return self.registered.build(options)

    def _more(self, obs_shape: Shape) -> dict[str, Any]:
        """Returns the shapes that a network needs for hybrid actions, or for three agents."""
        needed, names = {}, self.registered.config_class
        if hasattr(names, "args_shape"):
            needed["args_shape"] = 2
        if hasattr(names, "agents") and isinstance(obs_shape, int):
            needed["agents"] = 3
            if hasattr(names, "state_shape"):
                needed["state_shape"] = 3 * obs_shape
        return needed

    def rows(self, count: int, width: int) -> Any:
        """Returns observations, tensors [B, width]; of teams `obs` [B, 3, width]."""
        rng, kind = np.random.default_rng(0), self.component and self.registered.config_class
        team = hasattr(kind, "agents")
        shape = (count, 3, width) if team else (count, width)
        drawn = to_tensor(rng.standard_normal(shape).astype(np.float32))
        return {"obs": drawn} if team else drawn

    def test_has_the_methods(self) -> None:
        """It satisfies `IModel` and has parameters."""
        model = self.make(4, 3)
        expect_members(model, IModel)
        expect(list(model.parameters()), "it has no parameters")

    def test_returns_named_outputs(self) -> None:
        """`forward` returns a dict of finite outputs, one output per observation of the batch."""
        output = self.make(4, 3)(self.rows(6, 4))
        expect(isinstance(output, dict) and output, f"forward returns {type(output).__name__}")
        _expect_rows(output, 6)

    def test_accepts_images(self) -> None:
        """Image observations (channels, height, width) may be uint8."""
        model = self._made_for((4, 84, 84), 6)
        image = np.random.default_rng(0).integers(0, 256, (3, 4, 84, 84)).astype(np.uint8)
        _expect_rows(model(to_tensor(image)), 3)

    def test_has_several_heads(self) -> None:
        """A list of action counts gives a list of logits with these widths."""
        logit = self._made_for(4, (3, 5))(self.rows(6, 4)).get("logit")
        if logit is None:
            skip("it has no logits")
        shapes = [tuple(array(each).shape) for each in logit]
        expect(shapes == [(6, 3), (6, 5)], f"heads of 3 and 5 actions, 6 rows: {shapes}")

    def test_samples_are_independent(self) -> None:
        """The output for an observation does not depend on the others of the batch."""
        model = self.make(4, 3)
        if hasattr(model, "eval"):
            model.eval()
        rows = self.rows(6, 4)
        together = leaves_of(model(rows), "")
        alone = leaves_of(model(tree_row(rows, slice(2, 3))), "")
        for (path, one), (_, other) in zip(together, alone, strict=True):
            close = np.allclose(array(one)[2:3], array(other), atol=1e-5)
            expect(close, f"'{path}' of one observation depends on the others")

    def test_does_not_change_its_input(self) -> None:
        """`forward` does not change its input."""
        model, rows = self.make(4, 3), self.rows(6, 4)  # the model imports torch
        before = tree_map(copied, rows)
        model(rows)
        same = not difference(tree_map(array, rows), before)
        expect(same, "forward changed its input")

    def test_gradients_reach_every_parameter(self) -> None:
        """Every parameter gets a gradient from some output."""
        model = self.make(4, 3)
        for parameter in model.parameters():
            parameter.data += 0.01  # nothing flows back through layers that begin with zeros
        output = model(self.rows(6, 4))
        if "hidden" in output:  # from its first state, a recurrent model has no recurrence
            output = model(self.rows(6, 4), output["hidden"])
        leaves = [leaf for _, leaf in leaves_of(output, "")]
        total = sum((leaf * leaf).sum() for leaf in leaves if leaf.requires_grad)
        total.backward()
        without = sum(
            parameter.grad is None or not bool((parameter.grad != 0).any())
            for parameter in model.parameters()
        )
        expect(without == 0, f"{without} parameters got no gradient")

    def test_same_seed_same_parameters(self) -> None:
        """The same seed gives the same parameters, another seed does not."""
        one, same, other = (self.make(4, 3, seed).state_dict() for seed in (0, 0, 1))
        wrong = difference(dict(one), dict(same))
        expect(not wrong, f"the same seed gave other parameters: {wrong}")
        expect(difference(dict(one), dict(other)), "another seed gave the same parameters")

    def test_state_round_trip(self) -> None:
        """A model with a loaded state returns identical outputs, in evaluation mode."""
        model, twin = self.make(4, 3, 0), self.make(4, 3, 1)
        twin.load_state_dict({key: value.clone() for key, value in model.state_dict().items()})
        rows = self.rows(6, 4)
        wrong = difference(model.eval()(rows), twin.eval()(rows))
        expect(not wrong, f"outputs differ after loading the state: {wrong}")

    def test_act_numpy_matches_forward(self) -> None:
        """`act_numpy`, if present, equals `forward` in evaluation mode, also after updates."""
        model = self.make(4, 3)
        if not hasattr(model, "act_numpy"):
            skip("it has no act_numpy (SupportsNumpyActing)")
        act = model.act_numpy()
        if act is None:
            skip("its act_numpy returns None at this size")
        obs = tree_map(array, self.rows(6, 4))
        model.eval()
        for _ in range(2):
            acted, output = dict(leaves_of(_named(act(obs)), "")), model(tree_map(to_tensor, obs))
            wanted = dict(leaves_of(_named(output), ""))
            unknown = [path for path in acted if path not in wanted]
            expect(not unknown, f"act_numpy returns {', '.join(unknown)}, which forward does not")
            expect(acted, "act_numpy returns nothing")
            for path, leaf in acted.items():
                near = np.allclose(leaf, array(wanted[path]), atol=1e-5)
                expect(near, f"act_numpy returns another '{path}' than forward")
            for parameter in model.parameters():
                parameter.data += 0.02
        kept = _named(act(obs))
        before = copied(kept)
        act(tree_map(lambda leaf: leaf + 1, obs))
        expect(not difference(kept, before), "a later call changed earlier outputs")

    def _made_for(self, obs_shape: Shape, action_shape: Shape) -> Any:
        try:
            return self.make(obs_shape, action_shape)
        except ConfigError as error:
            skip(f"it does not take these shapes: {error.message}")


def _named(output: object) -> object:
    return output if isinstance(output, dict) else {"logit": output}


def _expect_rows(output: object, count: int) -> None:
    for path, leaf in leaves_of(output, ""):
        value = array(leaf)
        expect(value.shape[:1] == (count,), f"'{path}' of {count} rows is {list(value.shape)}")
        expect(np.isfinite(value).all(), f"'{path}' is not finite")
