# SPDX-License-Identifier: Apache-2.0
"""Residual networks of "Deep Residual Learning for Image Recognition": ResNet-18 and ResNet-50."""

from torch import nn

CLASSES = 1000


def convolution(n_in, n_out, size, stride=1):
    return [nn.Conv2d(n_in, n_out, size, stride, size // 2, bias=False), nn.BatchNorm2d(n_out)]


class Block(nn.Module):
    """Two convolutions of 3 x 3; with a bottleneck, one of 3 x 3 between two of 1 x 1."""

    def __init__(self, n_in, width, stride, is_bottleneck):
        super().__init__()
        n_out = 4 * width if is_bottleneck else width
        if is_bottleneck:
            layers = [*convolution(n_in, width, 1), nn.ReLU(inplace=True),
                      *convolution(width, width, 3, stride), nn.ReLU(inplace=True),
                      *convolution(width, n_out, 1)]
        else:
            layers = [*convolution(n_in, width, 3, stride), nn.ReLU(inplace=True),
                      *convolution(width, width, 3)]
        self.layers = nn.Sequential(*layers)
        self.shortcut = (nn.Identity() if n_in == n_out and stride == 1
                         else nn.Sequential(*convolution(n_in, n_out, 1, stride)))
        self.last = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.last(self.layers(x) + self.shortcut(x))


def resnet(depths, is_bottleneck):
    layers = [*convolution(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    n_in = 64
    for i, depth in enumerate(depths):
        width = 64 << i
        for k in range(depth):
            layers.append(Block(n_in, width, 2 if i > 0 and k == 0 else 1, is_bottleneck))
            n_in = 4 * width if is_bottleneck else width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(n_in, CLASSES))


def resnet18():
    return resnet((2, 2, 2, 2), False)


def resnet50():
    return resnet((3, 4, 6, 3), True)
