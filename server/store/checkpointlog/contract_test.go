package checkpointlog

import (
	"testing"

	"github.com/tidemark/tidemark/server/store"
	"github.com/tidemark/tidemark/server/store/storetest"
)

func TestContract(t *testing.T) {
	storetest.Run(t, func(dir string) (store.Store, error) { return Open(dir, Options{}) })
}
