package recipes

import (
	"time"

	"github.com/forebay/forebay"
	"github.com/forebay/forebay/buffer"
	"github.com/forebay/forebay/datatype"
	"github.com/forebay/forebay/driver"
	"github.com/forebay/forebay/mapping"
)

// Gateway returns options for a small machine whose line to the target may be down for a month.
func Gateway(target driver.Target) forebay.Options {
	return forebay.Options{Target: target, Buffer: buffer.Tuning{
		MaxDiskBytes:    2 << 30,             // readings are refused when this is used up, and nothing is evicted
		MaxSinkBytes:    3 << 29,             // one sink may have three quarters
		MaxPendingBytes: 8 << 20,             // memory for rows that are not on disk yet
		MemTableBytes:   4 << 20,             // memory of the store
		Retention:       60 * 24 * time.Hour, // files wait for their table this long, by default 7 days
		Retry:           buffer.Retry{Probe: 10 * time.Minute, Max: 10 * time.Minute},
	}}
}

// Readings is a source of sensor readings.
func Readings() forebay.Source {
	return forebay.Source{ID: "sensors", Settings: forebay.Settings{Compression: forebay.CompressionZstd}, Sinks: []forebay.Sink{{
		ID: "readings", Table: forebay.Table{ID: "readings", Columns: mapping.Columns{
			mapping.Path("sensor", "sensor", mapping.DataType(datatype.String), mapping.Required()),
			mapping.Path("at", "at", mapping.DataType(datatype.Timestamp), mapping.Required()),
			mapping.Path("celsius", "celsius", mapping.DataType(datatype.Float64)),
			mapping.Path("percent", "percent", mapping.DataType(datatype.Float64)),
		}},
	}}}
}

// Reading is a sensor's event.
type Reading struct {
	// Sensor is the name of the sensor. The temperature is in degrees, the humidity relative.
	Sensor  string    `json:"sensor"`
	At      time.Time `json:"at"`
	Celsius float64   `json:"celsius"`
	Percent float64   `json:"percent"`
}
