"""How close does the broker come to a null broker, to librdkafka's mock broker, and to Apache Kafka?

Three parts: raw clients (what a request costs the broker), librdkafka (what a real client reaches), start and memory.
Every broker is a process of its own, except the mock, which lives in its client. The sides of a ratio take turns, seven
times; a line gives medians, and ratios with the lowest and the highest. `QUICK=1` takes two turns, for development.

Parts run alone as well: `python -m bench.broker_raw`, `bench.broker_librdkafka`, `bench.broker_start`.
"""

from bench import broker_librdkafka, broker_raw, broker_start


def main() -> None:
    for part in (broker_start, broker_raw, broker_librdkafka):
        print(f"\n{(part.__doc__ or '').splitlines()[0]}", flush=True)
        part.main()


if __name__ == "__main__":
    main()
