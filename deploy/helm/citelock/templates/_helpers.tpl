{{- define "citelock.fullname" -}}
{{- if contains "citelock" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-citelock" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels of an object; the argument is (dict "root" $ "component" NAME). */}}
{{- define "citelock.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
{{ include "citelock.selector" . }}
{{- end }}

{{- define "citelock.selector" -}}
app.kubernetes.io/name: citelock
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* The name of an image; the argument is (dict "root" $ "name" NAME "digest" DIGEST "suffix" SUFFIX). */}}
{{- define "citelock.image" -}}
{{- $repository := printf "%s/citelock-%s" .root.Values.image.registry .name -}}
{{- if .digest }}{{ printf "%s@%s" $repository .digest }}{{ else }}{{ printf "%s:%s%s" $repository (.root.Values.image.tag | default .root.Chart.AppVersion) (.suffix | default "") }}{{ end }}
{{- end }}

{{/* Fails where the kind of home and the configuration do not fit together. */}}
{{- define "citelock.checked" -}}
{{- $address := get .Values.config "home" | default "" | toString }}
{{- $isAddress := regexMatch "^(s3|gs|az)://" $address }}
{{- if eq .Values.home.kind "objectStore" }}
{{- if not $isAddress }}{{ fail "home.kind objectStore needs config.home, the address of the store: s3://BUCKET/PREFIX" }}{{ end }}
{{- if .Values.serving.homeReadOnly }}{{ fail "serving.homeReadOnly must be false with home.kind objectStore: a pod writes what it fetches" }}{{ end }}
{{- if .Values.dagster.enabled }}
{{- $volumes := list (dig "dagsterDaemon" "volumes" list .Values.dagster) (dig "runLauncher" "config" "k8sRunLauncher" "volumes" list .Values.dagster) }}
{{- range dig "dagster-user-deployments" "deployments" list .Values.dagster }}{{ $volumes = append $volumes (.volumes | default list) }}{{ end }}
{{- range $volumes }}{{ range . }}
{{- if and (eq .name "home") .persistentVolumeClaim }}{{ fail "home.kind objectStore: give Dagster's pods an emptyDir as `home` too (ci/object-store.yaml)" }}{{ end }}
{{- end }}{{ end }}
{{- end }}
{{- else if $isAddress }}{{ fail "config.home is an address of an object store: set home.kind objectStore" }}
{{- end }}
{{- end }}

{{- define "citelock.claim" -}}
{{- if eq .Values.home.kind "existing" }}{{ required "home.claimName names the claim of home.kind existing" .Values.home.claimName }}{{ else }}{{ include "citelock.fullname" . }}-home{{ end }}
{{- end }}

{{- define "citelock.pod" -}}
serviceAccountName: {{ include "citelock.fullname" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext: {{- toYaml .root.Values.podSecurityContext | nindent 2 }}
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
