package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/siderolabs/talos/pkg/machinery/config/configloader"
)

// tellKeys prints, as one JSON object, every key that this release reads in documents of the given kinds; a kind it does
// not know gets null. "v1alpha1" stands for the document without a kind.
func tellKeys(kinds []string) error {
	told := map[string]any{}

	for _, kind := range kinds {
		text := fmt.Sprintf("apiVersion: v1alpha1\nkind: %s\n", kind)
		if kind == "v1alpha1" {
			text = "version: v1alpha1\nmachine: {}\n"
		}

		config, err := configloader.NewFromBytes([]byte(text))
		if err != nil {
			told[kind] = nil

			continue
		}

		if kind == "v1alpha1" {
			told[kind] = shape(reflect.TypeOf(config.RawV1Alpha1()), nil)
		} else {
			told[kind] = shape(reflect.TypeOf(config.Documents()[0]), nil)
		}
	}

	return json.NewEncoder(os.Stdout).Encode(told)
}

// shape is an object for a mapping with known keys, ["…", item] for lists and free mappings, and a word for the rest.
func shape(of reflect.Type, within []reflect.Type) any {
	for of.Kind() == reflect.Pointer {
		of = of.Elem()
	}

	for _, outer := range within {
		if outer == of {
			return "recursion"
		}
	}

	if _, custom := reflect.PointerTo(of).MethodByName("UnmarshalYAML"); custom {
		return "own:" + of.Name()
	}

	if _, custom := reflect.PointerTo(of).MethodByName("UnmarshalText"); custom {
		return "text:" + of.Name()
	}

	if of == reflect.TypeFor[time.Duration]() {
		return "duration"
	}

	switch of.Kind() {
	case reflect.Struct:
		keys := map[string]any{}
		fill(keys, of, append(within, of))

		return keys
	case reflect.Slice, reflect.Array:
		return []any{"list", shape(of.Elem(), within)}
	case reflect.Map:
		return []any{"map", shape(of.Elem(), within)}
	case reflect.Interface:
		return "any"
	default:
		return of.Kind().String()
	}
}

func fill(keys map[string]any, of reflect.Type, within []reflect.Type) {
	for index := range of.NumField() {
		field := of.Field(index)
		tag, options, _ := strings.Cut(field.Tag.Get("yaml"), ",")

		switch {
		case strings.Contains(options, "inline"):
			inner := field.Type
			for inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}

			if inner.Kind() == reflect.Map { // whatever else stands there
				keys["*"] = "any"
			} else {
				fill(keys, inner, within)
			}
		case tag == "-" || !field.IsExported():
		case tag == "":
			keys[strings.ToLower(field.Name)] = shape(field.Type, within)
		default:
			keys[tag] = shape(field.Type, within)
		}
	}
}
