// Package otlptest tests the OTLP endpoints with the exporters of the OpenTelemetry SDK. It is a separate module, so that a
// user of the library does not build the SDK and its exporters.
package otlptest
