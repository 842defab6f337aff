# SPDX-License-Identifier: Apache-2.0
"""The generator's parts: what it reads (spec, headers), then one file an output."""
