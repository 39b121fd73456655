"""The product's name and version. Everything derived from the name is derived from here."""

NAME = "rookery"
VERSION = "0.1.0"
ENV_PREFIX = f"{NAME.upper()}_"
PROJECT_FOLDER = f".{NAME}"
