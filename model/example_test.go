package model_test

import (
	"testing"

	"github.com/tidemark/tidemark/model"
	"github.com/tidemark/tidemark/statemachine"
)

// yours stands for your implementation: a type with the methods of model.Machine.
type yours struct{ model.Machine }

// restore begins a new life from a stored image. From the empty image it makes a stream nobody has sent to, in epoch 1.
func restore(limits *statemachine.Limits, img *statemachine.Image) (yours, error) {
	s, err := statemachine.Restore(limits, img)
	return yours{s}, err
}

func TestContract(t *testing.T) {
	model.Gate(t, restore)
}
