"""The networks of tests/bench/programs/ in PyTorch, with the weights of a program's state tensors.

`step` does what a trip of the program does, on tensors that stay where they are, so that a CUDA graph can
replay it; `check` repeats a program's trips in f64 from its state before them, and gives what was compared,
how far apart it is, and how far it may be.
"""

import gzip

import torch
import torch.nn as nn
import torch.nn.functional as F

STEPS_IN_GRAPH = 8  # where they are short


def far(ours, exact):
    """The distance of two tensors over the length of the second."""
    ours, exact = ours.double().cpu(), exact.double().cpu()
    return ((ours - exact).norm() / exact.norm()).item()


class Network:
    """A network with the weights of a program. `step` does what a trip does, with tensors that stay."""

    fast_tolerance = 1  # how many times as far from f64 the program may be under fast numerics
    trips_of_step = 1   # what one call of step() counts for
    steps_in_graph = STEPS_IN_GRAPH
    inference = True

    def compiled(self, mode):
        """A step that torch.compile has worked on."""
        raise NotImplementedError

    @classmethod
    def check_fast(cls, before, after, trips):
        what, error, tolerance = cls.check(before, after, trips)
        return what, error, tolerance * cls.fast_tolerance

    def form(self, name):
        """A function that does some steps, and how many trips these are."""
        if name == "eager":
            return self.step, self.trips_of_step
        if name == "graph":
            step = self.step
        else:
            torch.compiler.reset()
            step = self.compiled("default" if name == "compile" else "max-autotune-no-cudagraphs")
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(3):
                step()
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(self.steps_in_graph):
                step()
        return graph.replay, self.steps_in_graph * self.trips_of_step


class Mlp(nn.Module):
    def __init__(self, state, device, dtype):
        super().__init__()
        self.weights = nn.ParameterList(
            nn.Parameter(state[f"w{i}"].t().contiguous().to(device, dtype)) for i in (1, 2, 3))
        self.biases = nn.ParameterList(
            nn.Parameter(state[f"b{i}"].to(device, dtype)) for i in (1, 2, 3))

    def forward(self, x):
        for i in range(3):
            x = F.linear(x, self.weights[i], self.biases[i])
            if i < 2:
                x = F.relu(x)
        return x


class MlpStep(Network):
    """Cross-entropy and Adam on one batch."""

    inference = False

    def __init__(self, state, device="cuda", dtype=None):
        dtype = dtype or torch.float32
        self.net = Mlp(state, device, dtype)
        self.x = state["x"].to(device, dtype)
        self.labels = torch.arange(self.x.shape[0], device=device) % self.net.biases[2].numel()
        on_device = device == "cuda"
        self.adam = torch.optim.Adam(self.net.parameters(), lr=1e-3, **(
            {"fused": True, "capturable": True} if on_device else {}))
        self.loss_of = self.loss_now

    def loss_now(self):
        return F.cross_entropy(self.net(self.x), self.labels)

    def step(self):
        self.adam.zero_grad(set_to_none=True)
        self.loss = self.loss_of()
        self.loss.backward()
        self.adam.step()

    def compiled(self, mode):
        # The optimizer stays the fused kernel that it is.
        loss_of = torch.compile(lambda x, labels: F.cross_entropy(self.net(x), labels), mode=mode)

        def step():
            self.adam.zero_grad(set_to_none=True)
            loss_of(self.x, self.labels).backward()
            self.adam.step()
        return step

    @staticmethod
    def exact(before, after, trips):
        """The network in f64 after so many steps, and how far apart the losses are."""
        exact = MlpStep(before, "cpu", torch.float64)
        for _ in range(trips):
            exact.step()
        return exact, far(after["loss"].reshape(1), exact.loss.detach().reshape(1))

    @staticmethod
    def check(before, after, trips):
        exact, error = MlpStep.exact(before, after, trips)
        errors = [error]
        for i in range(3):
            errors.append(far(after[f"w{i + 1}"].t(), exact.net.weights[i].detach()))
            moved = exact.net.biases[i].detach()
            errors.append(far(after[f"b{i + 1}"], moved))
        return "the loss and all weights", max(errors), 2e-4

    @staticmethod
    def check_fast(before, after, trips):
        """Products of TF32 have 11 bits, and Adam at first takes gradients by their signs, however small they are. So it is
        gradients that are compared, as the first moments have them. After five steps they are 3 to 5 % apart where f32
        operands are rounded so in PyTorch."""
        exact, error = MlpStep.exact(before, after, trips)
        errors = [error]
        for i in range(3):
            for moment, weight in ((after[f"mw{i + 1}"].t(), exact.net.weights[i]),
                                   (after[f"mb{i + 1}"], exact.net.biases[i])):
                errors.append(far(moment, exact.adam.state[weight]["exp_avg"]))
        return "the loss and all first moments", max(errors), 0.1


class MlpForward(Network):
    """One question; the first pixels of the next are the answer."""

    def __init__(self, state, device="cuda", dtype=None):
        dtype = dtype or torch.float32
        self.net = Mlp(state, device, dtype)
        self.x = state["x"].to(device, dtype)
        self.classes = self.net.biases[2].numel()

    def step(self):
        self.x[:, : self.classes] = self.net(self.x)

    def compiled(self, mode):
        def step(x):
            x[:, : self.classes] = self.net(x)
        function = torch.compile(step, mode=mode)
        return lambda: function(self.x)

    @staticmethod
    def check(before, after, trips):
        exact = MlpForward(before, "cpu", torch.float64)
        for _ in range(trips):
            exact.step()
        return "the answers", far(after["x"][:, : exact.classes], exact.x[:, : exact.classes]), 1e-4


class Lstm(Network):
    """A sequence by nn.LSTM, which is cuDNN's."""

    steps_in_graph = 1
    fast_tolerance = 20  # the products for all steps at once are tf32, 11 bits
    GATES = ("in", "forget", "cell", "out")  # in PyTorch's order

    def __init__(self, state, device="cuda", dtype=None):
        dtype = dtype or torch.float32
        self.x = state["x"].to(device, dtype).unsqueeze(1)
        inputs, hidden = state["wi_in"].shape
        self.net = nn.LSTM(inputs, hidden).to(device, dtype)
        with torch.no_grad():
            for name, parts in (("weight_ih_l0", "wi_"), ("weight_hh_l0", "wh_")):
                getattr(self.net, name).copy_(torch.cat([state[parts + g].t() for g in self.GATES]))
            self.net.bias_ih_l0.copy_(torch.cat([state["b_" + g] for g in self.GATES]))
            self.net.bias_hh_l0.zero_()
        self.net.flatten_parameters()

    def step(self):
        self.y, _ = self.net(self.x)

    @staticmethod
    def check(before, after, trips):
        exact = Lstm(before, "cpu", torch.float64)
        exact.step()  # every trip begins anew
        return "the hidden states", far(after["y"].reshape(exact.y.squeeze(1).shape), exact.y.squeeze(1)), 1e-4


class Gpt2Layer(nn.Module):
    def __init__(self, state, layer, device, dtype):
        super().__init__()

        def give(name, tensor):
            self.register_buffer(name, tensor.contiguous().to(device, dtype))

        def dense(name, parts):
            give(name, torch.cat([state[f"{p}_{layer}"].t() for p in parts]))
            give(name + "_bias", torch.cat([state[f"{p}_{layer}_bias"] for p in parts]))

        dense("qkv", ("query", "key", "value"))
        for name in ("mix", "widen", "narrow"):
            dense(name, (name,))
        for name in ("before_attention", "before_feed"):
            for part in ("scale", "shift"):
                give(f"{name}_{part}", state[f"{name}_{layer}_{part}"])
        give("keys", state[f"keys_{layer}"].unsqueeze(0))
        give("values", state[f"values_{layer}"].unsqueeze(0))

    def forward(self, x):
        width = x.shape[1]
        _, heads, positions, head = self.keys.shape
        y = F.layer_norm(x, (width,), self.before_attention_scale, self.before_attention_shift)
        q, k, v = (part.view(1, heads, 1, head)
                   for part in F.linear(y, self.qkv, self.qkv_bias).split(width, 1))
        self.keys[:, :, positions - 1 : positions] = k
        self.values[:, :, positions - 1 : positions] = v
        seen = F.scaled_dot_product_attention(q, self.keys, self.values)
        x = x + F.linear(seen.reshape(1, width), self.mix, self.mix_bias)
        y = F.layer_norm(x, (width,), self.before_feed_scale, self.before_feed_shift)
        wide = F.gelu(F.linear(y, self.widen, self.widen_bias), approximate="tanh")
        return x + F.linear(wide, self.narrow, self.narrow_bias)


class Gpt2(nn.Module):
    def __init__(self, state, device, dtype):
        super().__init__()
        self.register_buffer("embedded", state["tokens_embedded"].to(device, dtype))
        self.register_buffer("place", state["place_embedded"].to(device, dtype))
        self.register_buffer("scale", state["last_scale"].to(device, dtype))
        self.register_buffer("shift", state["last_shift"].to(device, dtype))
        count = sum(name.startswith("keys_") for name in state)
        self.layers = nn.ModuleList(Gpt2Layer(state, i, device, dtype) for i in range(count))

    def forward(self, token):
        x = F.embedding(token, self.embedded) + self.place
        for layer in self.layers:
            x = layer(x)
        x = F.layer_norm(x, (x.shape[1],), self.scale, self.shift)
        return F.linear(x, self.embedded)


class Gpt2Token(Network):
    """A token, and the next one is the most likely after it."""

    steps_in_graph = 1

    def __init__(self, state, device="cuda", dtype=None):
        self.net = Gpt2(state, device, dtype or torch.bfloat16)
        self.token = state["token"].to(device)

    def step(self):
        self.logits = self.net(self.token)
        self.token.copy_(self.logits.argmax(1))

    def compiled(self, mode):
        def step(token):
            token.copy_(self.net(token).argmax(1))
        function = torch.compile(step, mode=mode)
        return lambda: function(self.token)

    @staticmethod
    def check(before, after, trips):
        if trips != 1:  # one other choice, and all that follows differs
            raise ValueError("only the first token can be compared")
        exact = Gpt2Token(before, "cpu", torch.float64)
        exact.step()
        error = far(after["logits"], exact.logits)
        # The chosen token is the best of the program's own logits.
        if after["token"].item() != after["logits"].argmax().item():
            error = float("inf")
        return "the logits", error, 3e-2


def idx(name):
    """A file of Fashion-MNIST, as rows of bytes."""
    with gzip.open(f"/usr/share/datasets/fashion-mnist/{name}-ubyte.gz") as file:
        data = torch.frombuffer(bytearray(file.read()), dtype=torch.uint8)
    dims = data[3].item()
    return data[4 + 4 * dims:].reshape(-1, 28 * 28) if dims == 3 else data[8:].long()


class FashionMnist(Network):
    """samples/03_fashion_mnist.trek on the CPU: an epoch in a new random order, then the test images."""

    inference = False
    trips_of_step = 1

    def __init__(self, state):
        self.images, self.labels = idx("train-images-idx3"), idx("train-labels-idx1")
        self.test_images, self.test_labels = idx("t10k-images-idx3"), idx("t10k-labels-idx1")
        self.net = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10))
        with torch.no_grad():
            for layer, i in ((self.net[0], 1), (self.net[2], 2)):
                layer.weight.copy_(state[f"w{i}"].t())
                layer.bias.copy_(state[f"b{i}"])
        self.sgd = torch.optim.SGD(self.net.parameters(), lr=0.1, momentum=0.9, nesterov=True)

    def step(self):
        order = torch.randperm(len(self.images))
        batches = order.split(100)
        losses = 0.0
        for done, rows in enumerate(batches):
            self.sgd.param_groups[0]["lr"] = 0.1 - 0.1 / len(batches) * done
            self.sgd.zero_grad(set_to_none=True)
            x = self.images[rows].float().mul_(1 / 255)
            loss = F.cross_entropy(self.net(x), self.labels[rows])
            loss.backward()
            self.sgd.step()
            losses += loss.detach()
        hits = 0
        with torch.no_grad():
            for x, t in zip(self.test_images.split(100), self.test_labels.split(100)):
                hits += (self.net(x.float().mul_(1 / 255)).argmax(1) == t).sum()
        self.accuracy = hits.item() / len(self.test_images)

    @staticmethod
    def check(before, after, trips):
        own = FashionMnist(before)
        for _ in range(trips):
            own.step()
        return "the accuracy", abs(own.accuracy - after["accuracy"].item()), 0.02


NETWORKS = {"fashion_mnist": FashionMnist, "mlp_step": MlpStep, "mlp_forward": MlpForward, "lstm": Lstm, "gpt2_token": Gpt2Token}
