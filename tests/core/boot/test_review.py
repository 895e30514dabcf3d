"""Names, keys and papers of machines, where two of them, or two clocks, meet."""

import asyncio
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.core.boot.packing import JOINS_WITHIN, WG_KEY, WG_SERVER, Packing, in_a_hall, pack
from tests.core.controllers.tills import a_token
from tests.core.market.offers import an_offer
from tgp.api.resource import CONFIG_MAP
from tgp.controllers.boot.shelf import KEPT_FOR, ShelfKeeper
from tgp.controllers.till_desk import node_name_for
from tgp.core.model.boot_book import BOOK
from tgp.core.model.image_mark import ImageMark
from tgp.core.model.key import Key
from tgp.core.model.talos import TalosVersion
from tgp.ports.boot import BootRefused
from tgp.ports.images import Shelved
