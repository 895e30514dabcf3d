"""`tgp talos check | render | join-secret`: a node's machine config, before any machine is rented with it."""

import asyncio
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import click

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.model.join import JoinValues
from tgp.core.model.key import Key
from tgp.core.model.machine_config import Rendered, TemplateRefused
from tgp.core.model.mesh import Backend
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion, read_version
from tgp.core.rules.talos.inert import inert_join, inert_plan
from tgp.core.rules.talos.join_source import take
from tgp.core.rules.talos.join_values import NotJoinable, read_join
from tgp.core.rules.talos.masked import masked
from tgp.core.rules.talos.preview import ANY_NODE, NO_SCHEMATIC, Materials, preview
from tgp.core.rules.talos.releases import USUAL
from tgp.core.rules.talos.sheets import Sheet, Unread, configs_of, sheets_of
from tgp.api.talos import TalosConfig
from tgp.surfaces.cli.class_file import classes_in, one_class, read_text
from tgp.surfaces.cli.output import show, terminal_width, waiting, write
from tgp.surfaces.cli.premises import cluster_options
from tgp.surfaces.cli.request_name import read_name
from tgp.surfaces.cli.talos_join import Desk as JoinDesk
from tgp.surfaces.cli.talos_join import join_secret
from tgp.surfaces.cli.talos_view import as_document, examine, exit_code, render as rendered_view
