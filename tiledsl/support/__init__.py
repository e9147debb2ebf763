"""What every other part stands on: locations, errors and their words, options."""

from tiledsl.support import catalogue as catalogue  # so that every error has its words, whatever else is imported
