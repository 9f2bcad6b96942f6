"""Personal rankings from clicks alone, by estimating the probability of a person's next item."""

from densirank._version import __version__
from densirank.automatic.choosing import fit_within
from densirank.data.interactions import Interactions
from densirank.data.reading import read
from densirank.methods import METHODS
from densirank.ranker import Ranker, load

__all__ = ["METHODS", "Interactions", "Ranker", "__version__", "fit_within", "load", "read"]
