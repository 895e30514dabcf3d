package main

import (
	"fmt"
	"math/rand"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const (
	replicas     = 18   // pods per owner
	nodes        = 1000 // that pods are spread over
	pendingEvery = 20   // 5 % wait for a node
	gpuEvery     = 5    // every fifth owner is a GPU job with affinity and tolerations
)

var epoch = time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)

// pod makes the i-th pod: two thirds with one container, one third with two, 6 KB of JSON in the mean.
// With unique set, no two pods have an equal sub-document.
func pod(i int, dice *rand.Rand, unique bool) *corev1.Pod {
	group := i / replicas
	namespace := fmt.Sprintf("team-%d", group%40)
	app := fmt.Sprintf("app-%d", group)
	if unique {
		app = fmt.Sprintf("app-%d-%d", group, i)
	}
	owner := fmt.Sprintf("%s-%010x", app, uint32(group*7919))
	gpu := group%gpuEvery == 0
	pending := i%pendingEvery == 0
	created := metav1.NewTime(epoch.Add(time.Duration(dice.Intn(86400)) * time.Second))
	ownerUID := uuid(rand.New(rand.NewSource(int64(group))))
	if unique {
		ownerUID = uuid(dice)
	}

	made := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%05x", owner, i), GenerateName: owner + "-", Namespace: namespace,
			UID: types.UID(uuid(dice)), ResourceVersion: fmt.Sprint(firstVersion + i), CreationTimestamp: created,
			Labels: map[string]string{
				"app.kubernetes.io/name": app, "app.kubernetes.io/component": "worker",
				"app.kubernetes.io/part-of": fmt.Sprintf("system-%d", group%10),
				"pod-template-hash":         owner[len(owner)-10:], "team": namespace,
			},
			Annotations: map[string]string{
				"prometheus.io/scrape": "true", "prometheus.io/port": "8080",
				"checksum/config":                   fmt.Sprintf("%064x", group),
				"kubectl.kubernetes.io/restartedAt": "2026-10-01T00:00:00Z",
				"cni.example.com/address":           fmt.Sprintf("10.%d.%d.%d/32", i>>16&255, i>>8&255, i&255),
			},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: owner, UID: types.UID(ownerUID),
				Controller: ptr(true), BlockOwnerDeletion: ptr(true),
			}},
			ManagedFields: managed(created, ownerUID),
		},
		Spec: corev1.PodSpec{
			Volumes: volumes(app), RestartPolicy: corev1.RestartPolicyAlways,
			TerminationGracePeriodSeconds: ptr(int64(30)), DNSPolicy: corev1.DNSClusterFirst,
			ServiceAccountName: "default", DeprecatedServiceAccount: "default",
			SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			Tolerations: tolerations(gpu, unique, i), Priority: ptr(int32(0)), EnableServiceLinks: ptr(true),
			PreemptionPolicy: ptr(corev1.PreemptLowerPriority),
		},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable},
	}
	made.Spec.Containers = append(made.Spec.Containers, container("main", app, group, gpu, unique, i))
	if group%3 == 0 {
		made.Spec.Containers = append(made.Spec.Containers, container("sidecar", app, group, false, unique, i))
	}
	if gpu {
		demand(made, unique, i)
	}
	if pending {
		wait(made, created)
	} else {
		place(made, created, dice, i)
	}
	return made
}

func container(name, app string, group int, gpu, unique bool, i int) corev1.Container {
	requests := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("500m"), corev1.ResourceMemory: resource.MustParse("2Gi"),
	}
	limits := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("4Gi"),
	}
	if unique {
		requests[corev1.ResourceMemory] = resource.MustParse(fmt.Sprintf("%dKi", 1_000_000+i))
	}
	if gpu {
		requests["nvidia.com/gpu"], limits["nvidia.com/gpu"] = resource.MustParse("1"), resource.MustParse("1")
	}
	var env []corev1.EnvVar
	for k := range 12 {
		env = append(env, corev1.EnvVar{Name: fmt.Sprintf("SETTING_%d", k), Value: fmt.Sprintf("value-%d-of-%s", k, app)})
	}
	return corev1.Container{
		Name: name, Image: fmt.Sprintf("registry.example/%s/%s:v1.%d.2", app, name, group%30),
		ImagePullPolicy: corev1.PullIfNotPresent, Env: env,
		Ports:     []corev1.ContainerPort{{Name: "http", ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
		Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits},
		LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
				Path: "/healthz", Port: intstr.FromInt32(8080), Scheme: corev1.URISchemeHTTP,
			}},
			InitialDelaySeconds: 10, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
		},
		TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		VolumeMounts: []corev1.VolumeMount{
			{Name: "config", MountPath: "/etc/app"},
			{Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"},
		},
	}
}

func volumes(app string) []corev1.Volume {
	return []corev1.Volume{
		{Name: "config", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: app}, DefaultMode: ptr(int32(420)),
		}}},
		{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: ptr(int32(420)),
			Sources: []corev1.VolumeProjection{
				{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: ptr(int64(3607)), Path: "token"}},
				{ConfigMap: &corev1.ConfigMapProjection{
					LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
					Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
				}},
			},
		}}},
	}
}

func tolerations(gpu, unique bool, i int) []corev1.Toleration {
	every := []corev1.Toleration{
		{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr(int64(300))},
		{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: ptr(int64(300))},
	}
	if gpu {
		every = append(every, corev1.Toleration{Key: "nvidia.com/gpu", Operator: "Exists", Effect: "NoSchedule"})
	}
	if unique {
		every = append(every, corev1.Toleration{Key: fmt.Sprintf("only.example.com/%d", i), Operator: "Exists"})
	}
	return every
}

func demand(made *corev1.Pod, unique bool, i int) {
	made.Spec.NodeSelector = map[string]string{"tgp.io/gpu-type": "A100"}
	if unique {
		made.Spec.NodeSelector["only.example.com/pod"] = fmt.Sprint(i)
	}
	made.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: "tgp.io/region", Operator: corev1.NodeSelectorOpIn, Values: []string{"eu", "us"}},
			},
		}}},
	}}
}

func wait(made *corev1.Pod, since metav1.Time) {
	made.Status.Phase = corev1.PodPending
	made.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, LastTransitionTime: since,
		Reason: corev1.PodReasonUnschedulable, Message: "0/1000 nodes are available: 1000 Insufficient nvidia.com/gpu.",
	}}
}

func place(made *corev1.Pod, since metav1.Time, dice *rand.Rand, i int) {
	made.Spec.NodeName = fmt.Sprintf("node-%d", dice.Intn(nodes))
	for _, kind := range []corev1.PodConditionType{
		"PodReadyToStartContainers", corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	} {
		made.Status.Conditions = append(made.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: since,
		})
	}
	made.Status.HostIP = fmt.Sprintf("10.200.%d.%d", i>>8&255, i&255)
	made.Status.PodIP = fmt.Sprintf("10.%d.%d.%d", i>>16&255, i>>8&255, i&255)
	made.Status.PodIPs = []corev1.PodIP{{IP: made.Status.PodIP}}
	made.Status.StartTime = &since
	for _, each := range made.Spec.Containers {
		made.Status.ContainerStatuses = append(made.Status.ContainerStatuses, corev1.ContainerStatus{
			Name: each.Name, Ready: true, Started: ptr(true), Image: each.Image,
			ImageID:     fmt.Sprintf("registry.example/%s@sha256:%064x", each.Name, i/replicas),
			ContainerID: fmt.Sprintf("containerd://%064x", i),
			State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: since}},
		})
	}
}

func managed(at metav1.Time, ownerUID string) []metav1.ManagedFieldsEntry {
	spec := `{"f:metadata":{"f:annotations":{".":{},"f:checksum/config":{},"f:kubectl.kubernetes.io/restartedAt":{},"f:prometheus.io/port":{},"f:prometheus.io/scrape":{}},"f:generateName":{},"f:labels":{".":{},"f:app.kubernetes.io/component":{},"f:app.kubernetes.io/name":{},"f:app.kubernetes.io/part-of":{},"f:pod-template-hash":{},"f:team":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"` + ownerUID + `\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"main\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"SETTING_0\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"SETTING_1\"}":{".":{},"f:name":{},"f:value":{}},"k:{\"name\":\"SETTING_2\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:livenessProbe":{".":{},"f:failureThreshold":{},"f:httpGet":{".":{},"f:path":{},"f:port":{},"f:scheme":{}}},"f:name":{},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`
	status := `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{},"f:startTime":{}}}`
	return []metav1.ManagedFieldsEntry{
		{Manager: "kube-controller-manager", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(spec)},
		{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1",
			FieldsV1: metav1.NewFieldsV1(status), Subresource: "status"},
	}
}

func uuid(dice *rand.Rand) string {
	var b [16]byte
	dice.Read(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

func ptr[T any](value T) *T { return &value }
