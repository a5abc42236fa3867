"""The command line that all examples share."""

import argparse


def arguments(description: str, **more: str) -> argparse.Namespace:
    """Read it. `more` are options that only one example has, with their defaults."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--bootstrap-server", default="localhost:9092")
    parser.add_argument("--topic", default="orders", help="what is read")
    parser.add_argument("--group", default="example", help="the consumer group")
    parser.add_argument("--member", help="this member's own name: started again, it goes on at once")
    parser.add_argument("--count", type=int, default=0, help="end after so many records; 0 is never")
    for name, default in more.items():
        parser.add_argument(f"--{name}", default=default)
    return parser.parse_args()
