import os


def base_url():
    return os.environ.get("APP_URL", "http://localhost:8000")


def timeout():
    """Seconds to wait for an answer, as a whole number."""
    return 30


def describe():
    return f"{base_url()} ({timeout()} s)"
