"""Traces and metrics for an OpenTelemetry collector, if the user configured one.

`recorder` watches the logs of tasks and sends what happened, `spans` folds events into spans,
`otlp` writes spans and metrics as OTLP JSON. It only reads logs: nothing here can change, delay or
fail a task, and it is not imported without an endpoint.
"""
