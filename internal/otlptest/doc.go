// Package otlptest tests the OTLP endpoints with the exporters of the OpenTelemetry SDK. It is a module of its own: the SDK
// and its exporters are no part of what a user of the library builds.
package otlptest
