# SPDX-License-Identifier: Apache-2.0
"""The generator: the readers of spec and headers, and one module per output."""
