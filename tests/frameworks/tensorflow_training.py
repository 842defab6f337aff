# SPDX-License-Identifier: Apache-2.0
"""TensorFlow: a small network learns, in a function and by Keras; XLA compiles; memory_limit holds.

TensorFlow by itself takes nearly all of the GPU's memory when it begins: a limit of 4 GiB, which a
logical device has, makes room for others, natively too.

GPU memory: 8 GiB
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

import numpy  # pylint: disable=wrong-import-position
import tensorflow as tf  # pylint: disable=wrong-import-position
from outputs import done, record  # pylint: disable=wrong-import-position

LIMIT_MIB = 4096
STEPS = 200


def limited():
    """The first GPU, of which TensorFlow may have the limit and no more."""
    gpus = tf.config.list_physical_devices("GPU")
    assert gpus, "TensorFlow finds no GPU"
    tf.config.set_logical_device_configuration(
        gpus[0], [tf.config.LogicalDeviceConfiguration(memory_limit=LIMIT_MIB)])
    assert tf.config.list_logical_devices("GPU")[0].name.endswith("GPU:0")


def limit_holds():
    def filled(mib):
        return tf.ones((mib << 18,), tf.float32)
    try:
        filled(LIMIT_MIB + 512)
        raise SystemExit("more than the limit was given")
    except tf.errors.ResourceExhaustedError:
        pass
    most = filled(LIMIT_MIB // 2)
    try:
        filled(LIMIT_MIB // 2 + 512)
        raise SystemExit("more than the limit was given at the second time")
    except tf.errors.ResourceExhaustedError:
        pass
    assert float(most[-1]) == 1
    del most
    record("after that", filled(LIMIT_MIB // 2)[-100:])
    used = tf.config.experimental.get_memory_info("GPU:0")
    assert LIMIT_MIB // 2 << 20 <= used["peak"] <= LIMIT_MIB << 20, used


def algebra():
    a = tf.random.stateless_normal((256, 256), (1, 2))
    product = tf.linalg.matmul(a, a, transpose_b=True)
    assert product.device.endswith("GPU:0"), product.device
    record("product", product)
    definite = product + 256 * tf.eye(256)
    record("cholesky", tf.linalg.cholesky(definite))
    record("solve", tf.linalg.solve(definite, a))
    record("fft", tf.signal.rfft(a))
    record("sorted", tf.sort(a, axis=0))
    record("sums", tf.cumsum(a, axis=1))
    record("softmax", tf.nn.softmax(a))
    record("gathered", tf.gather(a, tf.argsort(a[:, 0])))
    record("random", tf.random.stateless_uniform((1000,), (3, 4)))


def examples():
    """Pictures in which a bright square says to which of four classes they belong."""
    dice = numpy.random.default_rng(5)
    kinds = dice.integers(0, 4, 4096)
    pictures = dice.standard_normal((4096, 16, 16, 1)).astype(numpy.float32) / 2
    for i, kind in enumerate(kinds):
        row, column = 8 * (kind // 2), 8 * (kind % 2)
        pictures[i, row + 2:row + 6, column + 2:column + 6] += 1
    return pictures, kinds.astype(numpy.int32)


def trained_by_hand(pictures, kinds):
    dice = tf.random.Generator.from_seed(7)
    weights = [tf.Variable(dice.normal((256, 128)) / 16), tf.Variable(tf.zeros(128)),
               tf.Variable(dice.normal((128, 4)) / 11), tf.Variable(tf.zeros(4))]

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(x @ weights[0] + weights[1])
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(
                y, hidden @ weights[2] + weights[3]))
        for weight, slope in zip(weights, tape.gradient(loss, weights)):
            weight.assign_sub(0.1 * slope)
        return loss

    data = tf.data.Dataset.from_tensor_slices((pictures.reshape(-1, 256), kinds))
    losses = [step(x, y) for x, y in data.repeat().batch(128).take(STEPS)]
    assert losses[-1] < losses[0] / 3, losses
    record("losses by hand", losses)
    record("weights by hand", weights[0])


def trained_by_keras(pictures, kinds):
    keras = tf.keras
    keras.utils.set_random_seed(11)
    model = keras.Sequential([
        keras.layers.Conv2D(16, 3, activation="relu"), keras.layers.MaxPooling2D(),
        keras.layers.Conv2D(32, 3, activation="relu"), keras.layers.Flatten(),
        keras.layers.Dense(4)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                  metrics=["accuracy"], jit_compile=False)
    told = model.fit(pictures, kinds, batch_size=64, epochs=4, verbose=0)
    assert told.history["accuracy"][-1] > 0.95, told.history
    record("losses by Keras", told.history["loss"])
    record("weights by Keras", model.layers[0].kernel)


def compiled():
    @tf.function(jit_compile=True)
    def wave(x):
        return tf.linalg.matvec(tf.sin(x) * tf.exp(-x * x), tf.reduce_sum(tf.cos(x), axis=0))

    x = tf.random.stateless_normal((64, 64), (5, 6))
    want = (numpy.sin(x) * numpy.exp(-numpy.square(x))) @ numpy.cos(x).sum(0)
    assert numpy.allclose(wave(x), want, atol=1e-2), "XLA"
    record("compiled by XLA", wave(x))


def main():
    limited()
    # The same bits each time, in Keras' convolutions too.
    tf.config.experimental.enable_op_determinism()
    limit_holds()
    algebra()
    pictures, kinds = examples()
    trained_by_hand(pictures, kinds)
    trained_by_keras(pictures, kinds)
    compiled()
    done()


if __name__ == "__main__":
    main()
