# SPDX-License-Identifier: Apache-2.0
"""Scenes of executable graphs, as scenes.py has them of memory."""

from .scenes import any_array, chance, new, some_memory, stream
from .scenes_work import ATTRS, ONE, WAIT, WRITE, kernel_of

NODES_MOST = 12


class Graph:
    """An executable graph. Its nodes are sent one by one, and can be changed later."""

    def __init__(self, c):
        self.c, self.id, self.nodes = c, new(c, "graph"), []
        self.memory = some_memory(c, 65536)
        self.array = any_array(c) if chance(c, 0.4) else None
        c.say("graph_begin", graph=self.id, device=0)

    def put(self, kind, node):
        """Sends a node of that kind, new or changed."""
        getattr(self, kind)(node)
        c = self.c
        if chance(c, 0.01):
            c.say("graph_empty", graph=self.id, node=node)

    def say(self, name, node, **given):
        self.c.say("graph_" + name, graph=self.id, node=node, **given)

    def empty(self, node):
        self.say("empty", node)

    def kernel(self, node):
        c = self.c
        kernel = kernel_of(c, c.dice.choice((b"h_empty", b"h_many", b"h_count", b"h_local",
                                             b"h_print", b"h_cluster")))
        self.say("kernel", node, kernel=kernel, grid=(2, 1, 1), block=ONE, shared_bytes=0,
                 attr_mask=c.dice.choice((0,) * 9 + (ATTRS["PRIORITY"], ATTRS["CLUSTER"],
                                                     ATTRS["COOPERATIVE"])),
                 cluster=c.dice.choice(((1, 1, 1), (2, 1, 1))), params=bytes(64))

    def box(self, width=16):
        return {"width": width, "height": self.c.dice.choice((1, 2)), "depth": 1}

    def copy(self, node):
        self.say("copy", node, dst=self.memory, src=self.memory + 4096, dst_pitch=64, src_pitch=64,
                 dst_rows=4, src_rows=4, **self.box())

    def fill(self, node):
        self.say("fill", node, dst=self.memory, width=4, count=4, pitch=64,
                 rows=self.c.dice.choice((1, 2)))

    def copy_array(self, node):
        self.say("copy_array", node, array=self.array or 0, is_out=self.c.dice.randrange(2), x=0,
                 y=0, z=0, address=self.memory, pitch=64, rows=4, **self.box())

    def copy_arrays(self, node):
        self.say("copy_arrays", node, dst=self.array or 0, src=self.array or 0, dst_x=0, dst_y=0,
                 dst_z=0, src_x=0, src_y=4, src_z=0, **self.box())

    def call(self, node):
        self.say("call", node, call=self.c.dice.randrange(32))

    def memory_ops(self, node):
        c = self.c
        ops = [(self.memory + 8 * i, i, WRITE, 0) for i in range(c.dice.randint(1, 4))]
        if c.manners.blocks and chance(c, 0.3):
            ops.append((self.memory + 128, 77, WAIT, 1))
        self.say("memory_ops", node, ops=ops)

    def event(self, node):
        event = self.c.known.id("event")
        self.say("event", node, event=event, is_wait=self.c.dice.randrange(2))

    KINDS = ("empty", "kernel", "kernel", "copy", "fill", "copy_array", "copy_arrays", "call",
             "memory_ops", "event")

    def kinds(self):
        return [kind for kind in self.KINDS if self.array is not None or "array" not in kind]

    def edge_data(self, i):
        """Ports, type and padding of the edge to the next node."""
        if chance(self.c, 0.02):
            return tuple(self.c.dice.choice((0, 1, 2, 3, 255)) for _ in range(4))
        if self.nodes[i] != "kernel" or chance(self.c, 0.5):
            return (0, 0, 0, 0)
        is_kernel = self.nodes[i + 1] == "kernel"
        return self.c.dice.choice(((1, 0, 1, 0), (2, 0, 1, 0))) if is_kernel else (2, 0, 0, 0)

    def build(self):
        c = self.c
        for node in range(c.dice.randint(1, NODES_MOST)):
            self.nodes.append(c.dice.choice(self.kinds()))
            self.put(self.nodes[-1], node)
        edges = [(i, i + 1, *self.edge_data(i)) for i in range(len(self.nodes) - 1)
                 if chance(c, 0.6)]
        if chance(c, 0.03):
            edges.append((len(self.nodes), 0, 1, 0, 1, 0))
        if edges:
            c.say("graph_edges", graph=self.id, edges=edges)
        return c.say("graph_instantiate", graph=self.id, n_nodes=len(self.nodes),
                     by_node_priority=c.dice.randrange(2))


def scene_graph(c):
    """Makes a graph, launches and changes it several times, and destroys it while it runs."""
    graph = Graph(c)
    made = graph.build()
    for _ in range(c.dice.randint(1, 5) if made else 0):
        run(c, graph)
        node = c.dice.randrange(len(graph.nodes))
        kind = graph.nodes[node] if chance(c, 0.9) else c.dice.choice(graph.kinds())
        graph.put(kind, node)
        if chance(c, 0.4):
            c.say("graph_enable", graph=graph.id, node=node, is_enabled=c.dice.randrange(2))
        if chance(c, 0.5):
            c.say("graph_update_result", graph=graph.id)
    if chance(c, 0.3):
        c.say("memory_free", address=graph.memory)
        run(c, graph)
    if chance(c, 0.7):
        c.say("graph_destroy", graph=graph.id)
    c.tend()


def run(c, graph):
    name = c.dice.choice(("graph_launch", "graph_launch", "graph_launch_calls", "graph_upload"))
    c.say(name, stream=stream(c), graph=graph.id)
    c.tend()


def scene_unmade(c):
    """Sends nodes in a wrong order, and launches a graph that is not complete."""
    graph = Graph(c)
    for _ in range(c.dice.randint(1, 6)):
        kind = c.dice.choice(graph.kinds())
        graph.put(kind, c.dice.choice((0, 1, 2, 3, 1000)))
    c.say("graph_edges", graph=graph.id)
    c.say("graph_instantiate", graph=graph.id)
    c.say("graph_launch", graph=graph.id)
