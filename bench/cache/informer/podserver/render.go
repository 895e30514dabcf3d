package main

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

const firstVersion = 1_000_000

// An encoding is one of the two ways the API server writes objects; all of it is rendered before the measurement begins.
type encoding struct {
	listType, watchType string
	object              func(*corev1.Pod) []byte
	list                func(items [][]byte, version, following string) []byte
	event               func(kind string, object []byte) []byte
	bookmark            func(version string, end bool) []byte
}

var inJSON = encoding{
	listType: "application/json", watchType: "application/json",
	object: func(pod *corev1.Pod) []byte { return must(json.Marshal(pod)) },
	list: func(items [][]byte, version, following string) []byte {
		var body bytes.Buffer
		fmt.Fprintf(&body, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":%q,"continue":%q},"items":[`,
			version, following)
		body.Write(bytes.Join(items, []byte(",")))
		body.WriteString("]}\n")
		return body.Bytes()
	},
	event: func(kind string, object []byte) []byte {
		return bytes.Join([][]byte{[]byte(`{"type":"` + kind + `","object":`), object, []byte("}\n")}, nil)
	},
	bookmark: func(version string, end bool) []byte {
		return must(json.Marshal(bookmark(version, end)))
	},
}

var inProtobuf = encoding{
	listType: "application/vnd.kubernetes.protobuf", watchType: "application/vnd.kubernetes.protobuf;stream=watch",
	object: func(pod *corev1.Pod) []byte { return must(pod.Marshal()) },
	list: func(items [][]byte, version, following string) []byte {
		meta := must((&metav1.ListMeta{ResourceVersion: version, Continue: following}).Marshal())
		body := field(nil, 1, meta)
		for _, item := range items {
			body = field(body, 2, item)
		}
		return envelope("PodList", body)
	},
	event: func(kind string, object []byte) []byte {
		frame := must((&metav1.WatchEvent{Type: kind, Object: runtime.RawExtension{Raw: envelope("Pod", object)}}).Marshal())
		return append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)
	},
	bookmark: func(version string, end bool) []byte {
		return must(bookmark(version, end).Marshal())
	},
}

func bookmark(version string, end bool) *corev1.Pod {
	mark := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}}
	mark.ResourceVersion = version
	if end {
		mark.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
	}
	return mark
}

// envelope is how the API server frames protobuf: a magic number, then the kind beside the bytes.
func envelope(kind string, raw []byte) []byte {
	unknown := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: kind}, Raw: raw}
	return append([]byte("k8s\x00"), must(unknown.Marshal())...)
}

func field(body []byte, number int, value []byte) []byte {
	body = append(body, byte(number<<3|2))
	body = binary.AppendUvarint(body, uint64(len(value)))
	return append(body, value...)
}

// A rendering is everything one encoding will ever send.
type rendering struct {
	encoding
	objects [][]byte // as listed
	added   [][]byte // the same as ADDED events
	changed [][]byte // MODIFIED events, in order of their versions
}

// render makes the pods, and `changes` later versions of randomly chosen ones, in both encodings.
func render(count, changes int, unique bool, progress func(string)) (fromJSON, fromProtobuf *rendering) {
	fromJSON, fromProtobuf = &rendering{encoding: inJSON}, &rendering{encoding: inProtobuf}
	dice := rand.New(rand.NewSource(1))
	pods := make([]*corev1.Pod, count)
	for i := range pods {
		pods[i] = pod(i, dice, unique)
		for _, each := range []*rendering{fromJSON, fromProtobuf} {
			object := each.object(pods[i])
			each.objects = append(each.objects, object)
			each.added = append(each.added, each.event("ADDED", object))
		}
	}
	progress(fmt.Sprintf("%d pods rendered", count))
	for k := range changes {
		chosen := pods[dice.Intn(count)]
		chosen.ResourceVersion = fmt.Sprint(firstVersion + count + k)
		touch(chosen, k)
		for _, each := range []*rendering{fromJSON, fromProtobuf} {
			each.changed = append(each.changed, each.event("MODIFIED", each.object(chosen)))
		}
	}
	progress(fmt.Sprintf("%d changes rendered", changes))
	return fromJSON, fromProtobuf
}

// touch changes what changes most in a cluster: a condition flips, a container is restarted.
func touch(chosen *corev1.Pod, k int) {
	at := metav1.NewTime(epoch.AddDate(0, 0, 1))
	at.Time = at.Add(1e9 * 1)
	condition := &chosen.Status.Conditions[k%len(chosen.Status.Conditions)]
	condition.LastTransitionTime = at
	for i := range chosen.Status.ContainerStatuses {
		chosen.Status.ContainerStatuses[i].RestartCount++
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
