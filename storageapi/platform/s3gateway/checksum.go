package s3gateway

import (
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/versity/versitygw/s3api/utils"
)

// checksums are the checksums in the header of a request, by algorithm. Checksums after a chunked body are checked by
// versitygw itself.
type checksums map[utils.HashType]*string

// verify returns a reader of body that fails at its end when a checksum differs.
func (c checksums) verify(body io.Reader) (io.Reader, error) {
	for algorithm, sum := range c {
		if aws.ToString(sum) == "" {
			continue
		}
		r, err := utils.NewHashReader(body, *sum, algorithm)
		if err != nil {
			return nil, err
		}
		body = r
	}
	return body, nil
}
