{{- define "tgp-operator.selector" -}}
app.kubernetes.io/name: tgp-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tgp-operator.labels" -}}
{{ include "tgp-operator.labelsAnd" (list . dict) }}
{{- end }}

{{- /* With labels of the object's own, which win over common ones; ours win over both: a selector may ask for them. */}}
{{- define "tgp-operator.labelsAnd" -}}
{{- $chart := first . -}}
{{ include "tgp-operator.selector" $chart }}
app.kubernetes.io/part-of: tgp
app.kubernetes.io/version: {{ $chart.Chart.AppVersion | quote }}
{{- $given := merge (dict) (last . | default dict) ($chart.Values.commonLabels | default dict) }}
{{- with omit $given "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/part-of" "app.kubernetes.io/version" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Where the pods may run: never on a machine that it rents and terminates itself, whatever terms a user adds. */}}
{{- define "tgp-operator.affinity" -}}
{{- $rule := dict "key" "tgp.io/provisioned" "operator" "DoesNotExist" -}}
{{- $affinity := deepCopy (.Values.affinity | default dict) -}}
{{- $node := $affinity.nodeAffinity | default dict -}}
{{- $terms := list -}}
{{- range (dig "requiredDuringSchedulingIgnoredDuringExecution" "nodeSelectorTerms" list $node) | default (list dict) -}}
{{- $terms = append $terms (merge (dict "matchExpressions" (append (.matchExpressions | default list) $rule)) .) -}}
{{- end -}}
{{- $node = merge (dict "requiredDuringSchedulingIgnoredDuringExecution" (dict "nodeSelectorTerms" $terms)) (omit $node "requiredDuringSchedulingIgnoredDuringExecution") -}}
{{- $_ := set $affinity "nodeAffinity" $node -}}
{{ toYaml $affinity }}
{{- end }}

{{- define "tgp-operator.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end -}}
{{- end }}

{{- /* Of an address, host:port. */}}
{{- define "tgp-operator.port" -}}
{{ regexFind "[0-9]+$" . }}
{{- end }}

{{- /* The settings file: the values under settings, and those that have a place of their own. */}}
{{- define "tgp-operator.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- with .Values.networking.backend -}}
{{- $_ := set $settings "networking" (merge (dict "backend" .) ($settings.networking | default dict)) -}}
{{- end -}}
{{- with .Values.nodeGroups -}}
{{- $_ := set $settings "nodeGroups" . -}}
{{- end -}}
{{ toYaml $settings }}
{{- end }}

{{- define "tgp-operator.lease" -}}
{{ dig "lease" "name" "tgp-operator" .Values.settings }}
{{- end }}

{{- /* Not empty: admission policies are installed. */}}
{{- define "tgp-operator.policies" -}}
{{- if and .Values.policies.enabled (semverCompare ">=1.30-0" .Capabilities.KubeVersion.Version) -}}
true
{{- end -}}
{{- end }}

{{- /* Not empty: Helm itself installs, and keeps a release. Where only `helm template` runs, as in Argo CD, it cannot look into a cluster. */}}
{{- define "tgp-operator.release" -}}
{{- if lookup "v1" "Namespace" "" "kube-system" -}}
true
{{- end -}}
{{- end }}
